import { countedSpan } from '../../core/limit.js'
import { policyText } from '../../live/live-policy.js'
import type { LimitEntry } from '../index-entry.js'
import { COUNTED, FALLBACK, SHADOW } from '../outcome-counts.js'
import type { Ask, Frame, LimitRow, LimitsView, OpenLimit, Series } from '../view.js'
import type { DashboardState } from './dashboard-state.js'
import type { Rated, Reading } from './reading.js'
import { shareOf } from './traffic.js'

const ROWS = 50
const MOST_ROWS = 1000

type Objects = Pick<LimitsView, 'queues' | 'moreQueues' | 'shared' | 'moreShared'>

/** The first page: the limits of all services or of one, those first that refuse the largest share, then the busiest. */
export function limitsView(
  state: DashboardState,
  frame: Frame,
  { range = '15m', service, ...ask }: Ask,
  objects: Objects,
  chartOf: (limit: string) => Series,
): LimitsView {
  const { reading } = state
  const isUsed = reading.usedBy(service)
  const rated = isUsed === undefined ? reading.rated : reading.rated.filter(({ entry }) => isUsed('limit', entry.name))
  const most = Math.min(MOST_ROWS, Math.max(ROWS, ask.rows ?? ROWS))
  const wanted = new Set(ask.open)
  const chosen = rated.filter(({ entry }, i) => i < most || wanted.has(entry.id))
  const openAtFirst = ask.open === undefined ? chosen[0]?.entry.id : undefined
  return {
    ...frame,
    page: 'limits',
    range,
    total: rated.length,
    ...objects,
    rows: chosen.map(row => ({
      ...rowOf(state, reading, row, wanted.has(row.entry.id) || row.entry.id === openAtFirst),
      series: chartOf(row.entry.id),
    })),
  }
}

function rowOf(
  state: DashboardState,
  reading: Reading,
  { entry, ...rates }: Rated,
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
    shadow: rates.shadow,
    share: rates.share,
    degraded: rates.degraded,
    ...(live !== undefined && { live }),
    changeable: given !== undefined,
    ...(given !== undefined && { policy: policyText(given) }),
    ...(policy !== undefined && current === undefined && { replaced: true as const }),
    ...(isOpen && { open: openOf(state, reading, entry) }),
  }
}

function openOf(state: DashboardState, reading: Reading, { id, name }: LimitEntry): OpenLimit {
  const { counts } = state.reports.recent(id, 6)
  const sources: Record<string, number> = {}
  for (let place = SHADOW + 1; place <= FALLBACK; place++) {
    const share = shareOf(counts, place)
    if (share > 0) sources[COUNTED[place]] = share
  }
  // Reports name the keys of a limiter, not of each of its limits.
  const { allowed, refused } = reading.ratesOf(name)
  const broken = state.reports.alive.flatMap(({ record }) => (record.breaker === undefined ? [] : [record.breaker]))
  return {
    mostRefused: reading.callers.most('refused', key => state.show(key), name, refused),
    mostAsking: reading.callers.most('asked', key => state.show(key), name, allowed + refused),
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
