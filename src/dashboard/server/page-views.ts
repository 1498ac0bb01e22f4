import { changeId, liveChange } from '../../live/change.js'
import { percentile } from '../histogram.js'
import { EVERYTHING } from '../index-entry.js'
import { FALLBACK, REFUSED } from '../outcome-counts.js'
import type { LevelRow } from '../process-details.js'
import type {
  Act,
  Ask,
  ChangesView,
  ChangeView,
  Frame,
  KeysView,
  ProcessesView,
  QueueRow,
  QueuesView,
  SharedRow,
  View,
  WaitingView,
} from '../view.js'
import { alertsOf } from './alerts.js'
import type { PlainAct } from './changes.js'
import { type DashboardState, OBJECT_DEADLINE } from './dashboard-state.js'
import { addressIn } from './limiters.js'
import { limitsView } from './limits-view.js'
import { histogramsOf, levelsOf } from './sums-of-details.js'
import { TopCallers } from './top-callers.js'
import { shareOf } from './traffic.js'

/** Objects of a kind on a page of their own, and on the first page. */
const MOST_OBJECTS = 50
const FEW_OBJECTS = 8
const MOST_CHANGES = 200

/** Who looks. */
export interface Viewer {
  readonly access: 'read' | 'write'
  readonly user?: string
}

/** The content of a page. If Redis fails, the last known state, marked as old. */
export async function viewOf(state: DashboardState, ask: Ask, viewer: Viewer): Promise<View> {
  await state.refresh()
  const most = ask.page === 'queues' ? MOST_OBJECTS : FEW_OBJECTS
  const all = await queueRows(state, most)
  // Alerts are of all services, whichever is shown.
  const frame = frameOf(state, viewer, all)
  const queues = ask.service === undefined ? all : await queueRows(state, most, ask.service)
  switch (ask.page) {
    case 'keys':
      return keysView(state, frame, ask)
    case 'waiting':
      return waitingView(state, frame, ask)
    case 'queues':
      return queuesView(state, frame, queues)
    case 'changes':
      return changesView(state, frame)
    case 'processes':
      return processesView(state, frame, ask)
    default:
      return limitsView(state, frame, ask, queues, await sharedRows(state, FEW_OBJECTS, false, ask.service))
  }
}

function frameOf(state: DashboardState, { access, user }: Viewer, queues: readonly QueueRow[]): Frame {
  const { reports, live } = state
  const { counts, seconds } = reports.recent(EVERYTHING, 2)
  const decided = counts[0] + counts[REFUSED]
  const loud = reports.alive
  const answers = loud.flatMap(({ record }) => (record.answerMs === undefined ? [] : [record.answerMs]))
  const callers = new TopCallers(reports)
  const services = [...new Set(reports.processes.map(({ record }) => record.service))].sort()
  return {
    now: reports.now,
    readAt: reports.readAt,
    ...(reports.failing !== undefined && { failing: reports.failing }),
    access,
    ...(user !== undefined && { user }),
    status: {
      services: services.length,
      processes: loud.length,
      silent: reports.processes.length - loud.length,
      ...(answers.length > 0 && { answerMs: answers.reduce((sum, ms) => sum + ms, 0) / answers.length }),
      perSecond: decided / seconds,
      refusedShare: decided > 0 ? counts[REFUSED] / decided : 0,
      degradedShare: shareOf(counts, FALLBACK),
    },
    alerts: alertsOf(reports, callers, queues, state.limits, key => state.show(key)),
    services,
    ...(live.refusal !== undefined && { noLive: live.refusal }),
    installed: reports.processes.length > 0 || reports.entries.size > 0,
  }
}

async function queueRows(state: DashboardState, most: number, service?: string): Promise<QueueRow[]> {
  if (state.reports.failing !== undefined) return []
  const lateness = histogramsOf(state.reports)
  const rows = await settled(
    state
      .names('queue', service)
      .slice(0, most)
      .map(name => state.objects.queueRow(name)),
  )
  return rows.map(row => {
    const sums = lateness.get(row.name)
    if (sums === undefined) return row
    const [late50, late99] = [percentile(sums.lateness, 0.5), percentile(sums.lateness, 0.99)]
    const attempts = sums.deliveries > 0 ? sums.attempts / sums.deliveries : undefined
    return { ...row, late50, late99, attempts }
  })
}

async function sharedRows(
  state: DashboardState,
  most: number,
  withHolders: boolean,
  service?: string,
): Promise<SharedRow[]> {
  if (state.reports.failing !== undefined) return []
  const rows = await settled([
    ...state
      .names('semaphore', service)
      .slice(0, most)
      .map(name => state.objects.semaphoreRow(name, withHolders)),
    ...state
      .names('rate', service)
      .slice(0, most)
      .map(name => state.objects.rateRow(name, state.boundsOf(name))),
  ])
  const levels = levelsOf(state.reports, service)
  const inProcesses = levels.filter(({ object }) => object === 'concurrency' || object === 'limiter')
  const told = ({ object, name, inUse, waiting = 0 }: LevelRow) => ({
    waiting,
    ...(inUse !== undefined && { inUse }),
    ...(withHolders && object !== 'limiter' && state.objects.holderNames.places(object, name)),
  })
  return [
    // Permits of which Redis knows nothing under this name are counted elsewhere, like those of politeFetch.
    ...rows.map(row => {
      if (row.kind !== 'semaphore' || row.of !== undefined) return row
      const level = levels.find(({ object, name }) => object === 'semaphore' && name === row.name)
      return level === undefined ? row : { ...row, ...told(level) }
    }),
    ...inProcesses.slice(0, most).map(level => ({
      kind: level.object as 'concurrency' | 'limiter',
      name: level.name,
      ...told(level),
    })),
  ]
}

async function waitingView(state: DashboardState, frame: Frame, { service }: Ask): Promise<WaitingView> {
  return { ...frame, page: 'waiting', shared: await sharedRows(state, MOST_OBJECTS, true, service) }
}

async function queuesView(state: DashboardState, frame: Frame, queues: readonly QueueRow[]): Promise<QueuesView> {
  const isPlain = state.keyViews.style === 'plain'
  const letters = await Promise.all(
    queues.map(({ name, dead }) => (dead > 0 ? state.objects.letters(name, isPlain).catch(() => []) : [])),
  )
  return { ...frame, page: 'queues', queues: queues.map((row, i) => ({ ...row, letters: letters[i] })) }
}

async function keysView(state: DashboardState, frame: Frame, ask: Ask): Promise<KeysView> {
  const callers = new TopCallers(state.reports)
  const isUsed = state.usedBy(ask.service)
  const isMeant = (limiter: string) => isUsed('limit', limiter)
  const known = state.known.filter(({ name }) => isMeant(name))
  const shared = known.filter(limiter => limiter.shared)
  const alive = state.reports.failing === undefined
  const changes = alive ? await state.changes.list() : []
  // Others may have blocked it later: the block of a note ends when the note says.
  const blockedBy = (limiter: string, blocked: string, until: number | undefined) =>
    changes.find(
      ({ subject, key, until: noted }) =>
        subject === limiter &&
        key === blocked &&
        noted !== undefined &&
        until !== undefined &&
        Math.abs(noted - until) < 1000,
    )?.user
  const blocks = alive ? await state.limiters.blocks(shared) : []
  const shown = {
    mostRefused: callers.most('refused', key => state.show(key), undefined, 0, isMeant),
    mostAsking: callers.most('asked', key => state.show(key), undefined, 0, isMeant),
    limiters: known.map(({ name }) => name),
    blocks: blocks.slice(0, MOST_OBJECTS).map(({ limiter, key, until }) => {
      const by = blockedBy(limiter, key, until)
      return { limiter, key: state.show(key), until, ...(by !== undefined && { by }) }
    }),
  }
  const key = alive && ask.ref !== undefined ? await state.keyOf(ask.ref) : ask.key
  if (key === undefined || key === '' || !alive) return { ...frame, page: 'keys', ...shown }
  const as = addressIn(key)
  const sought = as ?? key
  const found = await settled(shared.map(limiter => state.limiters.look(limiter, sought, frame.now)))
  const limiters = found.flatMap(known => {
    if (known === undefined) return []
    const by = blockedBy(known.limiter, sought, known.blockedUntil)
    return [by === undefined ? known : { ...known, blockedBy: by }]
  })
  return {
    ...frame,
    page: 'keys',
    ...shown,
    // A user who typed the key knows it; keys that were shown masked stay masked.
    found: {
      key: ask.ref === undefined ? { ...state.show(sought), text: key } : state.show(sought),
      ...(as !== undefined && { as }),
      limiters,
      asked: shared.length,
      unread: shared.length - found.length,
    },
  }
}

async function changesView(state: DashboardState, frame: Frame): Promise<ChangesView> {
  if (state.reports.failing !== undefined) return { ...frame, page: 'changes', changes: [] }
  const noted = await state.changes.list()
  // A limit that was changed here is in both histories.
  const here = new Set(noted.flatMap(({ live }) => live ?? []))
  // Of one ms: by the numbers of the changes of live limits.
  const seqs = new Map<string, number>()
  const own = noted.map(({ act: _, live = [], key, undo, ...change }, i): ChangeView => {
    const id = `own ${change.at} ${i}`
    seqs.set(id, Number(live.at(-1)?.split(' ')[1] ?? 0))
    return {
      id,
      ...change,
      ...(key !== undefined && { key: state.show(key) }),
      ...(undo !== undefined && frame.access === 'write' && { undo: hidden(state, undo) }),
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
        ...(by !== undefined && { user: by }),
        what: policy === null ? 'Live limit cleared' : 'Live limit set',
        subject: name,
        ...(key !== undefined && { key: state.show(key) }),
        ...(policy !== null && { after: policy }),
        ...(until !== undefined && { until: until.getTime() }),
      }
    })
  const seqOf = ({ id }: ChangeView) => seqs.get(id) ?? 0
  const changes = [...own, ...live].sort((a, b) => b.at - a.at || seqOf(b) - seqOf(a)).slice(0, MOST_CHANGES)
  return { ...frame, page: 'changes', changes }
}

/** An act whose key stands behind a ref. */
export function hidden(state: DashboardState, act: PlainAct): Act {
  const { key, ...rest } = act as PlainAct & { key?: string }
  return (key === undefined ? rest : { ...rest, ref: state.show(key).ref }) as Act
}

function processesView({ reports }: DashboardState, frame: Frame, { service: wanted }: Ask): ProcessesView {
  const { processes } = reports
  const sum = processes.reduce((sum, process) => sum + (reports.isSilent(process) ? 0 : process.record.perSecond), 0)
  return {
    ...frame,
    page: 'processes',
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
          idle: record.idle === true,
          silent,
          perSecond,
          share,
          ...(breaker && { breaker }),
        }
      }),
  }
}

/** The results without failures: an object of another version, or a deleted one, must not hide the others. */
async function settled<T>(rows: ReadonlyArray<Promise<T>>): Promise<T[]> {
  const results = await Promise.allSettled(rows.map(row => OBJECT_DEADLINE.hold(row)))
  return results.flatMap(result => (result.status === 'fulfilled' ? [result.value] : []))
}
