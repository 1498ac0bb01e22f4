import { countName } from '../../../limiter/count-name.js'
import { changeId, liveChange, policyText } from '../../live/live-limit.js'
import { COUNTED, FALLBACK, SHADOW } from '../counts.js'
import type { LimitEntry } from '../records.js'
import type { ChangeRequest, ChangeView, EventView, Mark, Series, ViewRequest } from '../view.js'
import type { Noted, PlainChange } from './change-history.js'
import type { DashboardState } from './dashboard-state.js'
import { eventsOf, type Happened } from './events.js'
import { shareOf } from './fleet-reports.js'
import type { FleetSummary, Rated } from './fleet-summary.js'
import { spanOf } from './history.js'
import { type foundView, keysContent } from './keys-view.js'
import { NO_QUEUES, NO_SHARED, queueRows, sharedRows } from './object-rows.js'
import { type IsViewerThere, ViewerGone } from './redis-calls.js'
import type { DeadView } from './shared-objects.js'

const ROWS = 50
const MOST_ROWS = 1000

/** The common beginning of all views. */
export type ViewBase = ReturnType<typeof viewBaseOf>
export type View = Awaited<ReturnType<typeof viewOf>>
export type LimitsView = Extract<View, { page: 'limits' }>
export type LimitRow = ReturnType<typeof rowOf>
export type KeysView = Extract<View, { page: 'keys' }>
export type KeyFound = ReturnType<typeof foundView>
export type KeyLimiterView = KeyFound['limiters'][number]
export type WaitingView = Extract<View, { page: 'waiting' }>
export type QueuesView = Extract<View, { page: 'queues' }>
export type EventsView = Extract<View, { page: 'events' }>
export type ChangesView = Extract<View, { page: 'changes' }>
export type ProcessesView = Extract<View, { page: 'processes' }>
export type ProcessView = ProcessesView['processes'][number]
export type { DeadView }

const NO_BLOCKS: Blocked = new Map()

type Objects = Awaited<ReturnType<typeof queueRows>> & Awaited<ReturnType<typeof sharedRows>>

/**
 * The first page: the limits of all services or of one, those first that refuse the largest share, then the busiest.
 */
function limitsView(
  state: DashboardState,
  base: ViewBase,
  { range = '15m', service, ...ask }: ViewRequest,
  objects: Objects,
  chartOf: (limit: string) => Series,
  blocked: Blocked,
  events: readonly EventView[],
) {
  const { summary } = state
  const limitsByTrouble = ratedOf(state, { service, ...ask })
  const most = Math.min(MOST_ROWS, Math.max(ROWS, ask.rows ?? ROWS))
  const wanted = openRows(limitsByTrouble, ask.open)
  const chosen = limitsByTrouble.filter(({ entry }, i) => i < most || wanted.has(entry.id))
  return {
    ...base,
    page: 'limits' as const,
    range,
    total: limitsByTrouble.length,
    marks: marksIn(events, base.now - spanOf(range)),
    ...objects,
    rows: chosen.map(row => {
      const { id } = row.entry
      return rowOf(state, summary, row, wanted.has(id), chartOf(id), blocked)
    }),
  }
}

/** The newest events since a moment, for charts. */
function marksIn(events: readonly EventView[], since: number): Mark[] {
  const marks = events.filter(({ at }) => at >= since).slice(0, MOST_MARKS)
  return marks.map(({ kind, at, title }) => ({ kind, at, title }))
}

/** The limits that a view shows: those of a service, or whose names hold a text. */
function ratedOf({ summary }: DashboardState, { service, text = '' }: ViewRequest): readonly Rated[] {
  const isUsed = summary.usedBy(service)
  const sought = text.toLowerCase()
  if (isUsed === undefined && sought === '') return summary.limitsByTrouble
  return summary.limitsByTrouble.filter(({ entry: { name, limit } }) => {
    const isMeant = name.toLowerCase().includes(sought) || limit.name.toLowerCase().includes(sought)
    return isMeant && (isUsed === undefined || isUsed('limit', name))
  })
}

/** The ids of the rows that are open: the worst, as long as none was chosen. */
function openRows(limitsByTrouble: readonly Rated[], open: readonly string[] | undefined): ReadonlySet<string> {
  return new Set(open ?? limitsByTrouble.slice(0, 1).map(({ entry }) => entry.id))
}

/** The ends of blocks, by limiter and key. */
type Blocked = ReadonlyMap<string, ReadonlyMap<string, number>>

/** The keys that are blocked under the limiters of open rows. */
async function blockedOf(state: DashboardState, ask: ViewRequest, isViewerThere: IsViewerThere): Promise<Blocked> {
  const limitsByTrouble = ratedOf(state, ask)
  const open = openRows(limitsByTrouble, ask.open)
  const names = new Set(limitsByTrouble.filter(({ entry }) => open.has(entry.id)).map(({ entry }) => entry.name))
  const found = await Promise.all([...names].map(name => state.blocksUnder(name, isViewerThere)))
  return new Map(
    [...names].map((name, i) => [name, new Map(found[i].blocks.map(({ key, until }) => [key, until] as const))]),
  )
}

function rowOf(
  state: DashboardState,
  summary: FleetSummary,
  limitsByTrouble: Rated,
  isOpen: boolean,
  series: Series,
  blocked: Blocked,
) {
  const { id, name, limit, per, store } = limitsByTrouble.entry
  // The quota that an entry tells may be that of a single key, or of a moment ago.
  const policy = state.live.policy(name)
  const current = policy?.find(
    other => countName({ limit: other, limiter: name }) === countName({ limit, limiter: name }),
  )
  const given = store === 'memory' ? undefined : state.live.given(name)
  return {
    id,
    limiter: name,
    limit: limit.name,
    facts: current ?? limit,
    per,
    allowed: limitsByTrouble.allowed,
    refused: limitsByTrouble.refused,
    /** Refused in shadow mode: let through. */
    shadow: limitsByTrouble.shadow,
    share: limitsByTrouble.share,
    live: state.live.view(name),
    changeable: given !== undefined,
    /** All limits of its limiter that are in force, as their author wrote them; if they can be changed. */
    policy: given && policyText(given),
    /** The limiter has other limits by now. */
    replaced: policy !== undefined && current === undefined ? true : undefined,
    series,
    open: isOpen ? openOf(state, summary, limitsByTrouble.entry, blocked) : undefined,
  }
}

function openOf(state: DashboardState, summary: FleetSummary, { id, name, store }: LimitEntry, blocked: Blocked) {
  const { counts } = state.reports.recent(id, 6)
  const sources: Record<string, number> = {}
  for (let place = SHADOW + 1; place <= FALLBACK; place++) {
    const share = shareOf(counts, place)
    const source = COUNTED[place] === 'redis' ? store : COUNTED[place]
    if (share > 0) sources[source] = share + (sources[source] ?? 0)
  }
  // Reports name the keys of a limiter, not of each of its limits.
  const { allowed, refused } = summary.ratesOf(name)
  const show = (key: string) => ({ ...state.show(key), blockedUntil: blocked.get(name)?.get(key) })
  // Of the services that use this limiter: the stores of others have breakers of their own.
  const broken = state.reports.alive.flatMap(({ record: { breaker, service } }) =>
    breaker === undefined || summary.usedBy(service)?.('limit', name) !== true ? [] : [breaker],
  )
  return {
    mostRefused: summary.callers.top('refused', show, name, refused),
    mostAsking: summary.callers.top('asked', show, name, allowed + refused),
    /** Who decided, as shares. */
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

/** Objects of a kind on a page of their own, and on the first page. */
const MOST_OBJECTS = 50
const FEW_OBJECTS = 8
const MOST_CHANGES = 200
const MOST_EVENTS = 100
const MOST_MARKS = 50
const NOTHING: Happened = { events: [], more: 0 }
/** Who looks. */
export interface Viewer {
  readonly access: 'read' | 'write'
  readonly user?: string
}

/**
 * The content of a page. If Redis fails, the last known state, marked as old. Rejects with `ViewerGone` when
 * `isViewerThere` says that the viewer has gone.
 */
export async function viewOf(state: DashboardState, ask: ViewRequest, viewer: Viewer, isViewerThere: IsViewerThere) {
  // What the page needs of objects is asked with the reports, in one round trip, as far as they are known by now.
  if (state.isReadable) {
    if (choosesQueues(state, ask)) state.dead.get().catch(() => {})
    contentOf(state, ask, isViewerThere).catch(() => {})
  }
  await state.refresh()
  if (!isViewerThere()) throw new ViewerGone('the viewer has gone')
  const isAlive = state.reports.failing === undefined
  if (isAlive && choosesQueues(state, ask)) await state.dead.get().catch(() => {})
  const [content] = await Promise.all([
    contentOf(state, ask, isViewerThere),
    isAlive && state.readBlamed(isViewerThere).catch(() => {}),
  ])
  if (!isViewerThere()) throw new ViewerGone('the viewer has gone')
  return content(viewBaseOf(state, viewer))
}

/** Whether there are more queues than the page shows: those with dead letters come first. */
function choosesQueues({ summary }: DashboardState, { page, service }: ViewRequest): boolean {
  const most = page === 'limits' ? FEW_OBJECTS : page === 'queues' ? MOST_OBJECTS : Number.POSITIVE_INFINITY
  return summary.names('queue', service).length > most
}

/** Reads what a page shows beside the reports; returns what makes its view. */
async function contentOf(state: DashboardState, ask: ViewRequest, isViewerThere: IsViewerThere) {
  const alive = state.reports.failing === undefined
  switch (ask.page) {
    case 'keys': {
      const keys = await keysContent(state, ask, isViewerThere)
      return (base: ViewBase) => ({ ...base, ...keys })
    }
    case 'waiting': {
      const shared = alive ? await sharedRows(state, MOST_OBJECTS, true, ask.service) : NO_SHARED
      return (base: ViewBase) => ({ ...base, page: 'waiting' as const, ...shared })
    }
    case 'queues': {
      const { queue, id } = ask
      const isSought = alive && queue !== undefined && id !== undefined && state.summary.names('queue').includes(queue)
      const [rows, found] = await Promise.all([
        alive ? queueRows(state, MOST_OBJECTS, true, ask.service) : NO_QUEUES,
        isSought ? state.message(queue, id) : undefined,
      ])
      /** The message that was looked up; `found` is null if there is none. */
      const sought = isSought && found !== undefined ? { queue, id, found } : undefined
      return (base: ViewBase) => ({ ...base, page: 'queues' as const, ...rows, sought })
    }
    case 'changes': {
      const noted = alive ? await state.changeHistory.get() : undefined
      return (base: ViewBase) => ({
        ...base,
        page: 'changes' as const,
        changes: noted ? changesOf(state, base, noted) : [],
      })
    }
    case 'events': {
      const [happened, noted] = await historyOf(state, alive)
      return (base: ViewBase) => {
        const all = eventsOf(happened, changesOf(state, base, noted), base.now)
        const events = all.slice(0, MOST_EVENTS)
        return { ...base, page: 'events' as const, events, more: all.length - events.length + happened.more }
      }
    }
    case 'processes':
      return (base: ViewBase) => processesView(state, base, ask)
    default: {
      const [queues, shared, chartOf, blocked, [happened, noted]] = await Promise.all([
        alive ? queueRows(state, FEW_OBJECTS, false, ask.service) : NO_QUEUES,
        alive ? sharedRows(state, FEW_OBJECTS, false, ask.service) : NO_SHARED,
        state.history.charts(ask.range ?? '15m'),
        alive ? blockedOf(state, ask, isViewerThere).catch(() => NO_BLOCKS) : NO_BLOCKS,
        historyOf(state, alive).catch((): [Happened, Noted] => [NOTHING, []]),
      ])
      return (base: ViewBase) => {
        const events = eventsOf(happened, changesOf(state, base, noted), base.now)
        return limitsView(state, base, ask, { ...queues, ...shared }, chartOf, blocked, events)
      }
    }
  }
}

/** What happened, and what was changed here. */
function historyOf(state: DashboardState, isAlive: boolean): Promise<[Happened, Noted]> {
  return isAlive ? Promise.all([state.happened.get(), state.changeHistory.get()]) : Promise.resolve([NOTHING, []])
}

function viewBaseOf(state: DashboardState, { access, user }: Viewer) {
  const { reports, live, summary } = state
  return {
    /** Now, by the Redis server. */
    now: reports.now,
    /** When the shown data was read. */
    readAt: reports.readAt,
    /** Set if Redis does not answer: since when, and its error. */
    failing: reports.failing,
    access,
    user,
    // Alerts are of all services, whichever is shown.
    status: summary.status,
    ...state.alerts,
    /** All that have reported. */
    services: summary.services,
    /** Why limits cannot be changed here; undefined: they can. */
    noLive: live.refusal,
    /** False: no process has reported, and no object is known. */
    installed: reports.processes.length > 0 || reports.entries.size > 0,
  }
}

function changesOf(state: DashboardState, base: ViewBase, changeHistory: Noted): ChangeView[] {
  // A limit that was changed here is in both histories.
  const here = new Set(changeHistory.flatMap(({ live }) => live ?? []))
  // Of one ms: by the numbers of the changes of live limits.
  const seqs = new Map<string, number>()
  const own = changeHistory.map(({ act: _, live = [], key, undo, ...change }, i): ChangeView => {
    const id = `own ${change.at} ${i}`
    seqs.set(id, Number(live.at(-1)?.split(' ')[1] ?? 0))
    return {
      id,
      ...change,
      key: key === undefined ? undefined : state.show(key),
      undo: undo !== undefined && base.access === 'write' ? hidden(state, undo) : undefined,
    }
  })
  const live = state.live.history
    .filter(change => !here.has(changeId(change)))
    .map((change): ChangeView => {
      const { name, key, policy, at, by, until } = liveChange(change)
      const id = `live ${changeId(change)}`
      seqs.set(id, change.seq)
      return {
        id,
        at: at.getTime(),
        user: by,
        what: policy === null ? 'Live limit cleared' : 'Live limit set',
        subject: name,
        key: key === undefined ? undefined : state.show(key),
        ...(policy !== null && { after: policy }),
        until: until?.getTime(),
      }
    })
  const seqOf = ({ id }: ChangeView) => seqs.get(id) ?? 0
  return [...own, ...live].sort((a, b) => b.at - a.at || seqOf(b) - seqOf(a)).slice(0, MOST_CHANGES)
}

/** An act whose key stands behind a ref. */
export function hidden(state: DashboardState, act: PlainChange): ChangeRequest {
  const { key, ...rest } = act as PlainChange & { key?: string }
  return (key === undefined ? rest : { ...rest, ref: state.show(key).ref }) as ChangeRequest
}

function processesView({ reports }: DashboardState, base: ViewBase, { service: wanted }: ViewRequest) {
  const { processes } = reports
  const sum = processes.reduce((sum, process) => sum + (reports.isSilent(process) ? 0 : process.record.perSecond), 0)
  return {
    ...base,
    page: 'processes' as const,
    processes: processes
      .filter(({ record }) => wanted === undefined || record.service === wanted)
      .map(process => {
        const { id, heardAt, record } = process
        const { service, version, host, pid, startedAt, breaker } = record
        const silent = reports.isSilent(process)
        const perSecond = silent ? 0 : record.perSecond
        const share = sum > 0 ? perSecond / sum : 0
        return {
          id,
          service,
          version,
          host,
          pid,
          startedAt,
          heardAt,
          /** It has said that nothing happens. */
          idle: record.idle === true,
          /** It was not heard of when it should have been. */
          silent,
          perSecond,
          share,
          breaker,
        }
      }),
  }
}
