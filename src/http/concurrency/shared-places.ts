import { Deadline } from '../../core/deadline.js'
import { StoreError, TimeoutError } from '../../core/errors.js'
import type { Observer } from '../../core/observer.js'
import type { RedisClient } from '../../redis/client.js'
import { keySegment } from '../../redis/keys.js'
import type { Lease } from '../../semaphore/lease.js'
import { Semaphore } from '../../semaphore/semaphore.js'
import type { Place, Places } from './places.js'
import { ProcessPlaces } from './process-places.js'
import { RedisHealth } from './redis-health.js'

/** Semaphores of keys that nobody is inside of, kept because their requests come again. */
const MOST_IDLE = 1000
const IDLE_TTL = '10s'
/** While requests wait over Redis, how often Redis is asked whether it is there. */
const CHECK_EVERY_MS = 1000

interface SharedPlacesOptions {
  readonly client: RedisClient
  readonly prefix: string
  readonly name: string
  readonly permits: number
  readonly leaseMs: number
  readonly deadlineMs: number
  readonly observer: Observer | undefined
}

interface Room {
  readonly semaphore: Semaphore
  users: number
}

/** Why a request stops waiting over Redis. */
const OUTAGE = Symbol('outage')

/**
 * Places over all processes: leases of one semaphore a key. When Redis does not answer within the deadline this process counts alone,
 * with as many permits: new requests at once, and those that wait over Redis go on in this process's own line.
 *
 * Every place of this process is counted in `#alone` as well, so that a process that counts alone lets in no more than `permits`.
 */
export class SharedPlaces implements Places {
  readonly #options: SharedPlacesOptions
  readonly #alone: ProcessPlaces
  readonly #health: RedisHealth
  /** Rooms with users. */
  readonly #rooms = new Map<string, Room>()
  /** Rooms without users, the least recently used first. Apart from the others, so that one long request does not keep all of them. */
  readonly #idle = new Map<string, Room>()
  /** What ends the waiting over Redis of each request, and where it waits. */
  readonly #waiting = new Map<AbortController, Room>()
  #timer: ReturnType<typeof setInterval> | undefined
  #checking = false

  constructor(options: SharedPlacesOptions) {
    this.#options = options
    this.#alone = new ProcessPlaces(options.permits)
    this.#health = new RedisHealth(options.client, options.deadlineMs, options.observer)
    // Checks the options that are a semaphore's.
    this.#semaphoreOf('')
  }

  async enter(key: string): Promise<Place | null> {
    if (!this.#health.mayAsk()) return this.#alone.enter(key)
    const room = this.#join(key)
    const asked = room.semaphore.tryAcquire({ lease: this.#options.leaseMs })
    try {
      const lease = await this.#health.hold(asked)
      if (lease !== null) return this.#placeOf(lease, key, room)
      this.#leave(key, room)
      return null
    } catch (error) {
      this.#leave(key, room)
      if (!(error instanceof StoreError)) throw error
      // A lease that is granted too late serves nobody.
      asked.then(lease => lease?.release()).catch(() => {})
      this.#check()
      return this.#alone.enter(key)
    }
  }

  async wait(key: string, ms: number, signal: AbortSignal): Promise<Place | null> {
    if (this.#health.failing) return this.#alone.wait(key, ms, signal)
    const startedAt = performance.now()
    const room = this.#join(key)
    const ending = new AbortController()
    const end = () => ending.abort(signal.reason)
    if (signal.aborted) end()
    signal.addEventListener('abort', end, { once: true })
    this.#watch(ending, room)
    try {
      const { leaseMs } = this.#options
      const lease = await room.semaphore.acquire({ lease: leaseMs, timeout: ms, signal: ending.signal })
      return this.#placeOf(lease, key, room)
    } catch (error) {
      this.#leave(key, room)
      if (error instanceof TimeoutError) return null
      if (error !== OUTAGE && !(error instanceof StoreError)) throw error
      return this.#alone.wait(key, Math.max(0, startedAt + ms - performance.now()), signal)
    } finally {
      signal.removeEventListener('abort', end)
      this.#unwatch(ending)
    }
  }

  async close(): Promise<void> {
    const rooms = [...this.#rooms.values(), ...this.#idle.values()]
    const left = Promise.all(rooms.map(({ semaphore }) => semaphore.close()))
    await this.#alone.close()
    // Requests that were not taken out of their lines in Redis hold nobody up for long: the record of this process expires.
    await new Deadline(this.#options.deadlineMs).hold(left).catch(() => {})
  }

  #watch(ending: AbortController, room: Room): void {
    this.#waiting.set(ending, room)
    this.#timer ??= setInterval(() => this.#check(), CHECK_EVERY_MS)
    this.#timer.unref()
  }

  #unwatch(ending: AbortController): void {
    this.#waiting.delete(ending)
    if (this.#waiting.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  /** Asks whether Redis is there, if requests wait over it; if it fails twice, they go on in this process's own line. */
  async #check(): Promise<void> {
    if (this.#checking || this.#waiting.size === 0) return
    this.#checking = true
    try {
      if ((await this.#answers()) || (await this.#answers())) return
      for (const ending of this.#waiting.keys()) ending.abort(OUTAGE)
    } finally {
      this.#checking = false
    }
  }

  async #answers(): Promise<boolean> {
    const [room] = this.#waiting.values()
    if (room === undefined) return true
    if (!this.#health.mayAsk()) return false
    try {
      await this.#health.hold(room.semaphore.availablePermits())
      return true
    } catch (error) {
      // Whatever else it says, Redis has answered.
      return !(error instanceof StoreError)
    }
  }

  #join(key: string): Room {
    const room = this.#rooms.get(key) ?? this.#idle.get(key) ?? { semaphore: this.#semaphoreOf(key), users: 0 }
    room.users++
    this.#idle.delete(key)
    this.#rooms.set(key, room)
    return room
  }

  #leave(key: string, room: Room): void {
    room.users--
    if (room.users > 0) return
    this.#rooms.delete(key)
    this.#idle.set(key, room)
    if (this.#idle.size > MOST_IDLE) this.#idle.delete(this.#idle.keys().next().value as string)
  }

  #placeOf(lease: Lease, key: string, room: Room): Place {
    const here = this.#alone.occupy(key)
    return {
      leave: () => {
        const { held } = lease
        this.#leave(key, room)
        here.leave()
        // If that fails the lease ends by itself; and perhaps Redis is gone.
        this.#health.hold(lease.release()).catch(() => this.#check())
        return held
      },
    }
  }

  #semaphoreOf(key: string): Semaphore {
    const { client, prefix, name, permits } = this.#options
    // A segment has no colon, so that no two pairs of name and key are one.
    return new Semaphore(client, `${keySegment(name)}:${key}`, { permits, prefix, idleTtl: IDLE_TTL, fixed: true })
  }
}
