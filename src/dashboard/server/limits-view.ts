import { countedSpan } from '../../core/limit.js'
import { policyText } from '../../live/live-policy.js'
import type { LimitEntry } from '../index-entry.js'
import { COUNTED, FALLBACK, SHADOW } from '../outcome-counts.js'
import type { Ask, Frame, LimitRow, LimitsView, OpenLimit, QueueRow, SharedRow } from '../view.js'
import type { DashboardState } from './dashboard-state.js'
import { TopCallers } from './top-callers.js'
import { ratesOf, rounded, shareOf } from './traffic.js'

const ROWS = 50
const MOST_ROWS = 1000
/** A limit whose window was changed has two entries; the one that was not used for 15 minutes is not shown. */
const WORST_SHARE = 0.005

interface Rated extends ReturnType<typeof ratesOf> {
  readonly entry: LimitEntry
}

/** The first page: the limits of all services or of one, those first that refuse the largest share, then the busiest. */
export async function limitsView(
  state: DashboardState,
  frame: Frame,
  ask: Ask,
  queues: readonly QueueRow[],
  shared: readonly SharedRow[],
): Promise<LimitsView> {
  const { range = '15m' } = ask
  const chartOf = await state.history.charts(range)
  const isUsed = state.usedBy(ask.service)
  const rated = state.limits
    .filter(({ name }) => isUsed('limit', name))
    .map((entry): Rated => ({ entry, ...ratesOf(state.reports, entry.id) }))
    .filter(isCurrent(state))
  rated.sort(byTrouble)
  const most = Math.min(MOST_ROWS, Math.max(ROWS, ask.rows ?? ROWS))
  const wanted = new Set(ask.open)
  const chosen = rated.filter(({ entry }, i) => i < most || wanted.has(entry.id))
  const callers = new TopCallers(state.reports)
  const openAtFirst = ask.open === undefined ? chosen[0]?.entry.id : undefined
  return {
    ...frame,
    page: 'limits',
    range,
    total: rated.length,
    queues,
    shared,
    rows: chosen.map(row => ({
      ...rowOf(state, row, callers, wanted.has(row.entry.id) || row.entry.id === openAtFirst),
      series: chartOf(row.entry.id),
    })),
  }
}

function rowOf(
  state: DashboardState,
  { entry, counts, ...rates }: Rated,
  callers: TopCallers,
  isOpen: boolean,
): Omit<LimitRow, 'series'> {
  const { id, name, limit, per, store } = entry
  const live = state.live.view(name)
  // The quota that an entry tells may be that of a single key, or of a moment ago.
  const policy = state.live.policy(name)
  const current = policy?.find(other => other.name === limit.name && countedSpan(other) === countedSpan(limit))
  const given = store === 'redis' ? state.live.given(name) : undefined
  return {
    id,
    limiter: name,
    limit: limit.name,
    facts: current ?? limit,
    ...(per !== undefined && { per }),
    allowed: rates.allowed,
    refused: rates.refused,
    shadow: rounded(counts[SHADOW] / 10),
    share: rates.share,
    degraded: rates.degraded,
    ...(live !== undefined && { live }),
    changeable: given !== undefined,
    ...(given !== undefined && { policy: policyText(given) }),
    ...(policy !== undefined && current === undefined && { replaced: true as const }),
    ...(isOpen && { open: openOf(state, entry, callers, rates.refused, rates.allowed + rates.refused) }),
  }
}

function openOf(
  state: DashboardState,
  { id, name }: LimitEntry,
  callers: TopCallers,
  refused: number,
  asked: number,
): OpenLimit {
  const { counts } = state.reports.recent(id, 6)
  const sources: Record<string, number> = {}
  for (let place = SHADOW + 1; place <= FALLBACK; place++) {
    const share = shareOf(counts, place)
    if (share > 0) sources[COUNTED[place]] = share
  }
  const broken = state.reports.alive.flatMap(({ record }) => (record.breaker === undefined ? [] : [record.breaker]))
  return {
    mostRefused: callers.most('refused', key => state.show(key), name, refused),
    mostAsking: callers.most('asked', key => state.show(key), name, asked),
    sources,
    ...(broken.length > 0 && {
      breaker: {
        processes: broken.length,
        since: Math.min(...broken.map(breaker => breaker.since)),
        reason: broken[0].reason,
      },
    }),
  }
}

function byTrouble(a: Rated, b: Rated): number {
  const [worseA, worseB] = [a.share >= WORST_SHARE ? a.share : 0, b.share >= WORST_SHARE ? b.share : 0]
  const byRate = b.allowed + b.refused - (a.allowed + a.refused)
  return worseB - worseA || byRate || (a.entry.name < b.entry.name ? -1 : 1)
}

/** Leaves out a limit that another window or algorithm has replaced, when it was not used for 15 minutes. */
function isCurrent(state: DashboardState): (row: Rated) => boolean {
  const names = new Map<string, number>()
  for (const { name, limit } of state.limits) {
    const id = `${name} ${limit.name}`
    names.set(id, (names.get(id) ?? 0) + 1)
  }
  return ({ entry }) => {
    if ((names.get(`${entry.name} ${entry.limit.name}`) ?? 0) < 2) return true
    const { counts } = state.reports.recent(entry.id, 90)
    return counts.some(count => count > 0)
  }
}
