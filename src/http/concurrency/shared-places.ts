import type { AdaptivePermits } from '../../adaptive/adaptive-permits.js'
import { Deadline } from '../../core/clock.js'
import { StoreError, TimeoutError } from '../../core/errors.js'
import { BoundedMap } from '../../core/maps.js'
import type { RedisClient } from '../../redis/client.js'
import { keySegment } from '../../redis/keys.js'
import type { Lease } from '../../semaphore/lease.js'
import { Semaphore } from '../../semaphore/semaphore.js'
import { FleetPermits } from './fleet-permits.js'
import { type Place, type Places, ProcessPlaces } from './process-places.js'
import type { RedisHealth } from './redis-health.js'

/** How often to check that Redis answers while requests wait over Redis. */
const CHECK_EVERY_MS = 1000

/** The reason of a wait that ends early because Redis is gone. */
export const OUTAGE = Symbol('outage')

/** Ends waits over Redis when Redis no longer answers. */
export class OutageWatch {
  /** The controllers that end the waits. */
  readonly #waits = new Set<AbortController>()
  readonly #answers: () => Promise<boolean>
  #timer: ReturnType<typeof setInterval> | undefined
  #checking = false

  /** `answers` sends a command to Redis. It resolves to false if there was no answer within the deadline. */
  constructor(answers: () => Promise<boolean>) {
    this.#answers = answers
  }

  /** Runs `wait` until `signal` is aborted or Redis is gone: then the signal passed to `wait` is aborted, with `OUTAGE` as its reason. */
  async during<T>(signal: AbortSignal | undefined, wait: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const ending = new AbortController()
    const end = () => ending.abort(signal?.reason)
    if (signal?.aborted) end()
    signal?.addEventListener('abort', end, { once: true })
    this.#waits.add(ending)
    this.#timer ??= setInterval(() => this.check(), CHECK_EVERY_MS).unref()
    try {
      return await wait(ending.signal)
    } finally {
      signal?.removeEventListener('abort', end)
      this.#waits.delete(ending)
      if (this.#waits.size === 0) {
        clearInterval(this.#timer)
        this.#timer = undefined
      }
    }
  }

  /** Checks now, if any request waits; two failures in a row end all waits. */
  async check(): Promise<void> {
    if (this.#checking || this.#waits.size === 0) return
    this.#checking = true
    try {
      if ((await this.#answers()) || (await this.#answers())) return
      for (const ending of this.#waits) ending.abort(OUTAGE)
    } finally {
      this.#checking = false
    }
  }
}

/** Semaphores of keys without requests inside, kept because requests of the same key are likely. */
const MOST_IDLE = 1000
const IDLE_TTL = '10s'

interface SharedPlacesOptions {
  readonly client: RedisClient
  readonly prefix: string
  readonly name: string
  /** The permits of each key; or the adaptive limit of each process, whose sum a key has. */
  readonly permits: number | AdaptivePermits
  readonly leaseMs: number
  readonly health: RedisHealth
}

interface Room {
  readonly semaphore: Semaphore
  users: number
  /** The permits that this process has set in Redis; undefined: none yet. */
  permits: number | undefined
}

/**
 * Places over all processes: leases of one semaphore per key. If Redis does not answer within the deadline, this process counts alone,
 * with as many permits: new requests at once, and requests that wait over Redis continue to wait in this process's own line.
 *
 * Every place of this process is also counted in `#alone`, so that the process admits no more than `permits` when it counts alone.
 */
export class SharedPlaces implements Places {
  readonly #options: SharedPlacesOptions
  readonly #alone: ProcessPlaces
  readonly #health: RedisHealth
  readonly #fleet: FleetPermits | undefined
  /** Rooms in use. */
  readonly #rooms = new Map<string, Room>()
  /** Unused rooms, the least recently used first. Separate from the others, so that one long request does not keep all of them. */
  readonly #idle = new BoundedMap<string, Room>(MOST_IDLE)
  readonly #watch = new OutageWatch(() => this.#answers())

  constructor(options: SharedPlacesOptions) {
    this.#options = options
    this.#alone = new ProcessPlaces(options.permits)
    this.#health = options.health
    const { permits } = options
    if (typeof permits !== 'number') {
      const changed = () => {
        for (const room of this.#rooms.values()) this.#setPermits(room)
      }
      this.#fleet = new FleetPermits({ ...options, own: permits, changed })
    }
    // Checks the options of the semaphore.
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
      // A lease that is granted too late has no request to use it.
      asked.then(lease => lease?.release()).catch(() => {})
      this.#watch.check()
      return this.#alone.enter(key)
    }
  }

  async wait(key: string, ms: number, signal: AbortSignal): Promise<Place | null> {
    if (this.#health.failing) return this.#alone.wait(key, ms, signal)
    const startedAt = performance.now()
    const room = this.#join(key)
    try {
      const { leaseMs } = this.#options
      const lease = await this.#watch.during(signal, ending =>
        room.semaphore.acquire({ lease: leaseMs, timeout: ms, signal: ending }),
      )
      return this.#placeOf(lease, key, room)
    } catch (error) {
      this.#leave(key, room)
      if (error instanceof TimeoutError) return null
      if (error !== OUTAGE && !(error instanceof StoreError)) throw error
      return this.#alone.wait(key, Math.max(0, startedAt + ms - performance.now()), signal)
    }
  }

  isSame(other: Places): boolean {
    if (!(other instanceof SharedPlaces)) return false
    const [a, b] = [this.#options, other.#options]
    return a.client === b.client && a.prefix === b.prefix && a.name === b.name
  }

  async close(): Promise<void> {
    const rooms = [...this.#rooms.values(), ...this.#idle.values()]
    const left = Promise.all([this.#fleet?.leave(), ...rooms.map(({ semaphore }) => semaphore.close())])
    await this.#alone.close()
    // Requests that are still in their lines in Redis do not block others for long: the record of this process expires.
    await new Deadline(this.#health.deadlineMs).hold(left).catch(() => {})
  }

  async #answers(): Promise<boolean> {
    const [room] = this.#rooms.values()
    if (room === undefined) return true
    if (!this.#health.mayAsk()) return false
    try {
      await this.#health.hold(room.semaphore.availablePermits())
      return true
    } catch (error) {
      // Any other error is an answer of Redis.
      return !(error instanceof StoreError)
    }
  }

  #join(key: string): Room {
    const room = this.#rooms.get(key) ?? this.#idle.get(key) ?? this.#openRoom(key)
    room.users++
    this.#idle.delete(key)
    this.#rooms.set(key, room)
    this.#fleet?.tell()
    this.#setPermits(room)
    return room
  }

  #openRoom(key: string): Room {
    return { semaphore: this.#semaphoreOf(key), users: 0, permits: undefined }
  }

  /** Adaptive permits are sent to Redis when they change. */
  #setPermits(room: Room): void {
    if (this.#fleet === undefined || room.permits === this.#fleet.total) return
    room.permits = this.#fleet.total
    room.semaphore.setPermits(room.permits).catch(() => {
      room.permits = undefined
    })
  }

  #leave(key: string, room: Room): void {
    room.users--
    if (room.users > 0) return
    this.#rooms.delete(key)
    this.#idle.set(key, room)
  }

  #placeOf(lease: Lease, key: string, room: Room): Place {
    const here = this.#alone.occupy(key)
    return {
      lease,
      leave: () => {
        const { held } = lease
        this.#leave(key, room)
        here.leave()
        // If that fails the lease ends by itself; and perhaps Redis is gone.
        this.#health.hold(lease.release()).catch(() => this.#watch.check())
        return held
      },
    }
  }

  #semaphoreOf(key: string): Semaphore {
    const { client, prefix, name, permits } = this.#options
    // A segment has no colon, so that different pairs of name and key stay different.
    const total = typeof permits === 'number' ? permits : permits.limit
    const fixed = this.#fleet === undefined
    return new Semaphore(client, `${keySegment(name)}:${key}`, { permits: total, prefix, idleTtl: IDLE_TTL, fixed })
  }
}
