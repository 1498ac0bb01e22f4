import { timersLast } from '../limiter/core/clock.js'
import { keySegment } from '../limiter/core/key-segment.js'
import type { Limit } from '../limiter/core/limit.js'
import { getOrMake } from '../limiter/core/maps.js'
import { hashOf } from '../limiter/core/short-key.js'
import { countName } from '../limiter/count-name.js'
import type { ClientPort, RedisClient } from '../redis/client.js'
import { portOf } from '../redis/clients.js'
import { runScript } from '../redis/script.js'
import { indexNote } from '../redis/scripts.js'
import type { RedisCounts } from '../redis/store/redis-counts.js'

/**
 * An object is recorded this long after it was built, so that tests, scripts and short connections leave nothing
 * behind.
 */
const FIRST_MS = 10_000
const RETRY_MS = 60_000
/** How often the record of a live object is renewed, and how long a record lasts. */
const RENEW_MS = 6 * 3_600_000
export const NOTE_LIFE_MS = 24 * 3_600_000
/** Most objects of one process, and of all: a service may have a semaphore for each user. */
const MOST_OWN = 1000
export const MAX_NOTES = 10_000
const MOST_AT_ONCE = 100

/** The facts about an object, stored as JSON. */
export type ObjectFacts = Readonly<Record<string, unknown>> & { readonly kind: string; readonly name: string }

/** The keys of the index of one prefix. */
export function indexKeys(prefix: string): readonly string[] {
  const root = `${keySegment(prefix)}:{!dashboard}`
  return [`${root}:noted`, `${root}:facts`, `${root}:index`]
}

/** The secret by which dashboards hide keys: made for the first viewer. */
export function secretKey(prefix: string): string {
  return `${keySegment(prefix)}:{!dashboard}:secret`
}

/** A short id for an object, from its kind and its names. */
export function objectId(...parts: readonly string[]): string {
  return hashOf(JSON.stringify(parts)).slice(1, 11)
}

/** The id of a limiter's limit. A change that keeps its counts leaves it the same limit. */
export function limitId(limiter: string, limit: Limit): string {
  return objectId('limit', limiter, countName({ limit, limiter }))
}

/**
 * Where a limit is counted; 'elsewhere': in Redis, under another prefix than its process reports under; 'own': in a
 * store that a user has written.
 */
export const COUNTED_IN = ['redis', 'elsewhere', 'memory', 'postgres', 'sqlite', 'own'] as const
export type CountedIn = (typeof COUNTED_IN)[number]

/** `per`: what a key stands for, if known. `tags`: in a cluster, the number of hash tags over which keys are spread. */
export function limitFacts(
  limiter: string,
  limit: Limit,
  more: { readonly per?: string; readonly store: CountedIn; readonly tags?: number },
): ObjectFacts {
  return { kind: 'limit', name: limiter, limit, ...more }
}

/** Records, later and once per process, that a shared object exists. Sends nothing now. */
export function noteObject(client: RedisClient, kind: string, name: string, prefix = 'spillway', owner: object): void {
  ObjectIndex.of(portOf(client, kind), prefix).note(objectId(kind, name), { kind, name }, owner)
}

/** Records, later and once per process, the limits that a store meets. */
export function noteLimitsOf(store: RedisCounts): void {
  const { connection, prefix } = store.parts
  const index = ObjectIndex.of(connection.port, prefix)
  store.onNewLimit = ({ limiter, limit, tags }) => {
    const more = { store: 'redis', ...(tags !== undefined && { tags }) } as const
    index.note(limitId(limiter, limit), limitFacts(limiter, limit, more), limit)
  }
}

/** For an object that only inspects: it does not keep the record alive. */
export function withdrawNote(client: RedisClient, kind: string, name: string, prefix: string, owner: object): void {
  ObjectIndex.of(portOf(client, kind), prefix).withdraw(objectId(kind, name), owner)
}

interface Note {
  readonly facts: string
  readonly owner: WeakRef<object>
  writtenAt: number
}

/**
 * Records in Redis which objects this process uses, so that the dashboard finds them without scanning keys. One for
 * each client and prefix. Writes once for each object, ten seconds after it was built, and again every six hours while
 * it lives; never connects a client for this, and ignores failures. While nobody has opened a dashboard, it writes
 * nothing and asks again every minute.
 */
export class ObjectIndex {
  readonly #notes = new Map<string, Note>()
  readonly #keys: readonly string[]
  #timer: ReturnType<typeof setTimeout> | undefined
  #writesAt = 0
  /** After a failure, or while nobody has a dashboard. */
  #restsUntil = 0
  #forgetReady: (() => void) | undefined

  private constructor(
    readonly port: ClientPort,
    prefix: string,
  ) {
    this.#keys = [...indexKeys(prefix), secretKey(prefix)]
  }

  static of(port: ClientPort, prefix: string): ObjectIndex {
    const indices = getOrMake(INDICES, port, () => new Map())
    return getOrMake(indices, prefix, () => new ObjectIndex(port, prefix))
  }

  /** `owner`: while it lives, the record is renewed. If several owners have the same object, the first one counts. */
  note(id: string, facts: ObjectFacts, owner: object): void {
    // Nothing happens later there.
    if (!timersLast) return
    const known = this.#notes.get(id)
    if (known === undefined && this.#notes.size >= MOST_OWN) return
    const text = JSON.stringify(facts)
    if (known?.facts === text && known.owner.deref() !== undefined) return
    this.#notes.set(id, { facts: text, owner: new WeakRef(owner), writtenAt: Number.NEGATIVE_INFINITY })
    this.#writeIn(FIRST_MS)
  }

  withdraw(id: string, owner: object): void {
    if (this.#notes.get(id)?.owner.deref() === owner) this.#notes.delete(id)
  }

  #writeIn(ms: number): void {
    const now = performance.now()
    const at = Math.max(now + ms, this.#restsUntil)
    if (this.#timer !== undefined && this.#writesAt <= at) return
    clearTimeout(this.#timer)
    this.#writesAt = at
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#write()
    }, at - now)
    this.#timer.unref?.()
  }

  #write(): void {
    if (this.port.state() !== 'ready') {
      this.#forgetReady ??= this.port.onReady(() => {
        this.#forgetReady?.()
        this.#forgetReady = undefined
        this.#writeIn(FIRST_MS)
      })
      return
    }
    const now = performance.now()
    if (now < this.#restsUntil) {
      this.#writeIn(0)
      return
    }
    const due: [id: string, note: Note][] = []
    for (const [id, note] of this.#notes) {
      if (note.owner.deref() === undefined) this.#notes.delete(id)
      else if (now - note.writtenAt >= RENEW_MS && due.length < MOST_AT_ONCE) due.push([id, note])
    }
    if (due.length > 0) this.#send(due, now)
    if (this.#notes.size > 0) this.#writeIn(due.length < MOST_AT_ONCE ? RENEW_MS : 1000)
  }

  #send(notes: ReadonlyArray<readonly [id: string, note: Note]>, now: number): void {
    const args = [String(NOTE_LIFE_MS), String(MAX_NOTES), ...notes.flatMap(([id, { facts }]) => [id, facts])]
    for (const [, note] of notes) note.writtenAt = now
    const failed = () => {
      for (const [, note] of notes) note.writtenAt = Number.NEGATIVE_INFINITY
      this.#restsUntil = performance.now() + RETRY_MS
      this.#writeIn(RETRY_MS)
    }
    runScript(this.port, indexNote, this.#keys, args).then(recorded => {
      if (recorded === 0) failed()
    }, failed)
  }
}

const INDICES = new WeakMap<ClientPort, Map<string, ObjectIndex>>()
