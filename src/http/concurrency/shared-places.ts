import { Deadline } from '../../limiter/core/clock.js'
import { StoreError, TimeoutError } from '../../limiter/core/errors.js'
import { keySegment } from '../../limiter/core/key-segment.js'
import { BoundedMap } from '../../limiter/core/maps.js'
import type { Guarded } from '../../limiter/guarded.js'
import type { RedisClient } from '../../redis/client.js'
import { OUTAGE, OutageAborter } from '../../redis/guarded-redis.js'
import type { Lease } from '../../waiting/semaphore/lease.js'
import { Semaphore } from '../../waiting/semaphore/semaphore.js'
import { closedError, type Place, type Places, ProcessPlaces } from './process-places.js'

/** Semaphores of keys without requests inside, kept because requests of the same key are likely. */
const MOST_IDLE = 1000
const IDLE_TTL = '10s'

interface SharedPlacesOptions {
  readonly client: RedisClient
  readonly prefix: string
  readonly name: string
  /** The permits of each key. */
  readonly permits: number
  readonly leaseMs: number
  readonly guarded: Guarded
}

interface Room {
  readonly semaphore: Semaphore
  users: number
  /** By `close`: who comes later has another room. */
  isClosed: boolean
}

/**
 * Places over all processes: leases of one semaphore per key. If Redis does not answer within the deadline, this
 * process counts alone, with as many permits: new requests at once, and requests that wait over Redis continue to wait
 * in this process's own line.
 *
 * Every place of this process is also counted in `#alone`, so that the process admits no more than `permits` when it
 * counts alone.
 */
export class SharedPlaces implements Places {
  readonly #options: SharedPlacesOptions
  readonly #alone: ProcessPlaces
  readonly #guarded: Guarded
  /** Rooms in use. */
  readonly #rooms = new Map<string, Room>()
  /**
   * Unused rooms, the least recently used first. Separate from the others, so that one long request does not keep all
   * of them.
   */
  readonly #idle = new BoundedMap<string, Room>(MOST_IDLE)
  readonly #waits = new OutageAborter(() => this.#answers())

  constructor(options: SharedPlacesOptions) {
    this.#options = options
    this.#alone = new ProcessPlaces(options.permits)
    this.#guarded = options.guarded
    // Checks the options of the semaphore.
    this.#semaphoreOf('')
  }

  async enter(key: string): Promise<Place | null> {
    if (!this.#guarded.mayAsk()) return this.#alone.enter(key)
    const room = this.#join(key)
    const asked = room.semaphore.tryAcquire({ lease: this.#options.leaseMs })
    try {
      const lease = await this.#guarded.hold(asked)
      if (lease !== null) return this.#placeOf(lease, key, room)
      this.#leave(key, room)
      return null
    } catch (error) {
      this.#leave(key, room)
      if (!(error instanceof StoreError)) throw error
      if (room.isClosed) return this.enter(key)
      // A lease that is granted too late has no request to use it.
      asked.then(lease => lease?.release()).catch(() => {})
      this.#waits.check()
      return this.#alone.enter(key)
    }
  }

  async wait(key: string, ms: number, signal: AbortSignal): Promise<Place | null> {
    if (this.#guarded.failing) return this.#alone.wait(key, ms, signal)
    const startedAt = performance.now()
    const room = this.#join(key)
    try {
      const { leaseMs } = this.#options
      const lease = await this.#waits.during(signal, ending =>
        room.semaphore.acquire({ lease: leaseMs, timeout: ms, signal: ending }),
      )
      return this.#placeOf(lease, key, room)
    } catch (error) {
      this.#leave(key, room)
      if (error instanceof TimeoutError) return null
      if (room.isClosed) throw closedError()
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
    this.#rooms.clear()
    this.#idle.clear()
    for (const room of rooms) room.isClosed = true
    const left = Promise.all(rooms.map(({ semaphore }) => semaphore.close()))
    await this.#alone.close()
    // Requests that are still in their lines in Redis do not block others for long: the record of this process expires.
    await new Deadline(this.#guarded.deadlineMs).hold(left).catch(() => {})
  }

  async #answers(): Promise<boolean> {
    const [room] = this.#rooms.values()
    if (room === undefined) return true
    if (!this.#guarded.mayAsk()) return false
    try {
      await this.#guarded.hold(room.semaphore.availablePermits())
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
    return room
  }

  #openRoom(key: string): Room {
    return { semaphore: this.#semaphoreOf(key), users: 0, isClosed: false }
  }

  #leave(key: string, room: Room): void {
    room.users--
    if (room.users > 0 || room.isClosed) return
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
        this.#guarded.hold(lease.release()).catch(() => this.#waits.check())
        return held
      },
    }
  }

  #semaphoreOf(key: string): Semaphore {
    const { client, prefix, name, permits } = this.#options
    // A segment has no colon, so that different pairs of name and key stay different.
    return new Semaphore(client, `${keySegment(name)}:${key}`, { permits, prefix, idleTtl: IDLE_TTL, fixed: true })
  }
}
