import { liveChange } from '../../live/change.js'
import { FALLBACK, REFUSED } from '../counts.js'
import { EVERYTHING } from '../facts.js'
import { percentile } from '../histogram.js'
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
import { addressIn } from './limiters.js'
import { limitsView } from './limits-view.js'
import { QUICK, type Room } from './room.js'
import { histogramsOf, levelsOf } from './sums-of-details.js'
import { TopCallers } from './top-callers.js'
import { shareOf } from './traffic.js'

/** A process is silent after three missed reports, and at least this time. */
const SILENT_MS = 10_000
/** Objects of a kind on a page of their own, and on the first page. */
const MOST_OBJECTS = 50
const FEW_OBJECTS = 8
const MOST_CHANGES = 200

/** Who looks. */
export interface Viewer {
  readonly access: 'read' | 'write'
  readonly user?: string
  readonly token: string
}

/** The content of a page. If Redis fails, the last known state, marked as old. */
export async function viewOf(room: Room, ask: Ask, viewer: Viewer): Promise<View> {
  await room.refresh()
  const queues = await queueRows(room, ask.page === 'queues' ? MOST_OBJECTS : FEW_OBJECTS)
  const frame = frameOf(room, viewer, queues)
  switch (ask.page) {
    case 'keys':
      return keysView(room, frame, ask)
    case 'waiting':
      return waitingView(room, frame)
    case 'queues':
      return queuesView(room, frame, queues)
    case 'changes':
      return changesView(room, frame)
    case 'processes':
      return processesView(room, frame)
    default:
      return limitsView(room, frame, ask, queues, await sharedRows(room, FEW_OBJECTS, false))
  }
}

function frameOf(room: Room, { access, user, token }: Viewer, queues: readonly QueueRow[]): Frame {
  const { picture, live } = room
  const { counts, seconds } = picture.recent(EVERYTHING, 2)
  const decided = counts[0] + counts[REFUSED]
  const loud = picture.processes.filter(process => !isSilent(room, process))
  const answers = loud.flatMap(({ record }) => (record.answerMs === undefined ? [] : [record.answerMs]))
  const callers = new TopCallers(picture)
  return {
    now: picture.now,
    readAt: picture.readAt,
    ...(picture.failing !== undefined && { failing: picture.failing }),
    access,
    ...(user !== undefined && { user }),
    token,
    status: {
      services: new Set(picture.processes.map(({ record }) => record.service)).size,
      processes: loud.length,
      silent: picture.processes.length - loud.length,
      ...(answers.length > 0 && { answerMs: answers.reduce((sum, ms) => sum + ms, 0) / answers.length }),
      perSecond: decided / seconds,
      refusedShare: decided > 0 ? counts[REFUSED] / decided : 0,
      degradedShare: shareOf(counts, FALLBACK),
    },
    alerts: alertsOf(picture, callers, queues, room.limits, key => room.show(key)),
    ...(live.refusal !== undefined && { noLive: live.refusal }),
    installed: picture.processes.length > 0 || picture.entries.size > 0,
  }
}

function isSilent({ picture }: Room, { heardAt, record }: Room['picture']['processes'][number]): boolean {
  return picture.now - heardAt > Math.max(SILENT_MS, 3 * record.everyMs)
}

async function queueRows(room: Room, most: number): Promise<QueueRow[]> {
  if (room.picture.failing !== undefined) return []
  const lateness = histogramsOf(room.picture)
  const rows = await settled(
    room
      .names('queue')
      .slice(0, most)
      .map(name => room.objects.queueRow(name)),
  )
  return rows.map(row => {
    const sums = lateness.get(row.name)
    if (sums === undefined) return row
    const [late50, late99] = [percentile(sums.lateness, 0.5), percentile(sums.lateness, 0.99)]
    const attempts = sums.deliveries > 0 ? sums.attempts / sums.deliveries : undefined
    return { ...row, late50, late99, attempts }
  })
}

async function sharedRows(room: Room, most: number, withHolders: boolean): Promise<SharedRow[]> {
  if (room.picture.failing !== undefined) return []
  const rows = await settled([
    ...room
      .names('semaphore')
      .slice(0, most)
      .map(name => room.objects.semaphoreRow(name, withHolders)),
    ...room
      .names('rate')
      .slice(0, most)
      .map(name => room.objects.rateRow(name)),
  ])
  const levels = levelsOf(room.picture)
  const inProcesses = levels.filter(({ object }) => object === 'concurrency' || object === 'limiter')
  return [
    ...rows,
    ...inProcesses.slice(0, most).map(({ object, name, inUse, waiting = 0 }) => ({
      kind: object as 'concurrency' | 'limiter',
      name,
      waiting,
      ...(inUse !== undefined && { inUse }),
    })),
  ]
}

async function waitingView(room: Room, frame: Frame): Promise<WaitingView> {
  return { ...frame, page: 'waiting', shared: await sharedRows(room, MOST_OBJECTS, true) }
}

async function queuesView(room: Room, frame: Frame, queues: readonly QueueRow[]): Promise<QueuesView> {
  const letters = await Promise.all(
    queues.map(({ name, dead }) => (dead > 0 ? room.objects.letters(name).catch(() => []) : [])),
  )
  return { ...frame, page: 'queues', queues: queues.map((row, i) => ({ ...row, letters: letters[i] })) }
}

async function keysView(room: Room, frame: Frame, ask: Ask): Promise<KeysView> {
  const callers = new TopCallers(room.picture)
  const shared = room.known.filter(limiter => limiter.shared)
  const alive = room.picture.failing === undefined
  const changes = alive ? await room.changes.list() : []
  const blockedBy = (limiter: string, blocked: string) =>
    changes.find(({ act, key }) => act.act === 'block' && act.limiter === limiter && key === blocked)?.user
  const blocks = alive ? await room.limiters.blocks(shared) : []
  const shown = {
    mostRefused: callers.most('refused', key => room.show(key)),
    mostAsking: callers.most('asked', key => room.show(key)),
    limiters: room.known.map(({ name }) => name),
    blocks: blocks.slice(0, MOST_OBJECTS).map(({ limiter, key, until }) => {
      const by = blockedBy(limiter, key)
      return { limiter, key: room.show(key), until, ...(by !== undefined && { by }) }
    }),
  }
  const key = alive && ask.ref !== undefined ? await room.keyOf(ask.ref) : ask.key
  if (key === undefined || key === '' || !alive) return { ...frame, page: 'keys', ...shown }
  const as = addressIn(key)
  const sought = as ?? key
  const found = await Promise.all(shared.map(limiter => room.limiters.look(limiter, sought, frame.now)))
  const limiters = found.flatMap(known => {
    if (known === undefined) return []
    const by = blockedBy(known.limiter, sought)
    return [by === undefined ? known : { ...known, blockedBy: by }]
  })
  return {
    ...frame,
    page: 'keys',
    ...shown,
    // A user who typed the key knows it; keys that were shown masked stay masked.
    found: {
      key: ask.ref === undefined ? { ...room.show(sought), text: key } : room.show(sought),
      ...(as !== undefined && { as }),
      limiters,
      asked: shared.length,
    },
  }
}

async function changesView(room: Room, frame: Frame): Promise<ChangesView> {
  if (room.picture.failing !== undefined) return { ...frame, page: 'changes', changes: [] }
  const noted = await room.changes.list()
  const own: ChangeView[] = noted.map(({ act: _, key, undo, ...change }, i) => ({
    id: `own ${change.at} ${i}`,
    ...change,
    ...(key !== undefined && { key: room.show(key) }),
    ...(undo !== undefined && frame.access === 'write' && { undo: hidden(room, undo) }),
  }))
  const live = room.live.history
    .filter(change => !noted.some(own => isSame(own, change)))
    .map((change): ChangeView => {
      const { name, key, policy, at, by, until } = liveChange(change)
      return {
        id: `live ${change.epoch} ${change.seq}`,
        at: at.getTime(),
        ...(by !== undefined && { user: by }),
        what: policy === null ? 'Live limit cleared' : 'Live limit set',
        subject: name,
        ...(key !== undefined && { key: room.show(key) }),
        ...(policy !== null && { after: policy }),
        ...(until !== undefined && { until: until.getTime() }),
      }
    })
  const changes = [...own, ...live].sort((a, b) => b.at - a.at).slice(0, MOST_CHANGES)
  return { ...frame, page: 'changes', changes }
}

/** A limit that was changed here is in both histories. */
function isSame(
  own: { readonly at: number; readonly act: PlainAct; readonly key?: string },
  live: { readonly name: string; readonly key: string | undefined; readonly atMs: number },
): boolean {
  if (own.act.act !== 'set-limit' && own.act.act !== 'clear-limit') return false
  return own.act.limiter === live.name && own.key === live.key && Math.abs(own.at - live.atMs) < 2000
}

/** An act whose key stands behind a ref. */
export function hidden(room: Room, act: PlainAct): Act {
  const { key, ...rest } = act as PlainAct & { key?: string }
  return (key === undefined ? rest : { ...rest, ref: room.show(key).ref }) as Act
}

function processesView(room: Room, frame: Frame): ProcessesView {
  const { processes } = room.picture
  const sum = processes.reduce((sum, process) => sum + (isSilent(room, process) ? 0 : process.record.perSecond), 0)
  return {
    ...frame,
    page: 'processes',
    processes: processes.map(process => {
      const { id, heardAt, record } = process
      const { service, version, host, pid, startedAt, breaker } = record
      const silent = isSilent(room, process)
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
  const results = await Promise.allSettled(rows.map(row => QUICK.hold(row)))
  return results.flatMap(result => (result.status === 'fulfilled' ? [result.value] : []))
}
