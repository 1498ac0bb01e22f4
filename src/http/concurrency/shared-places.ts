import { Deadline } from '../../core/deadline.js'
import { StoreError, TimeoutError } from '../../core/errors.js'
import type { RedisClient } from '../../redis/client.js'
import { keySegment } from '../../redis/keys.js'
import type { Lease } from '../../semaphore/lease.js'
import { Semaphore } from '../../semaphore/semaphore.js'
import { OUTAGE, OutageWatch } from './outage-watch.js'
import type { Place, Places } from './places.js'
import { ProcessPlaces } from './process-places.js'
import type { RedisHealth } from './redis-health.js'

/** Semaphores of keys that nobody is inside of, kept because their requests come again. */
const MOST_IDLE = 1000
const IDLE_TTL = '10s'

interface SharedPlacesOptions {
  readonly client: RedisClient
  readonly prefix: string
  readonly name: string
  readonly permits: number
  readonly leaseMs: number
  readonly health: RedisHealth
}

interface Room {
  readonly semaphore: Semaphore
  users: number
}

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
  readonly #watch = new OutageWatch(() => this.#answers())

  constructor(options: SharedPlacesOptions) {
    this.#options = options
    this.#alone = new ProcessPlaces(options.permits)
    this.#health = options.health
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

  async close(): Promise<void> {
    const rooms = [...this.#rooms.values(), ...this.#idle.values()]
    const left = Promise.all(rooms.map(({ semaphore }) => semaphore.close()))
    await this.#alone.close()
    // Requests that were not taken out of their lines in Redis hold nobody up for long: the record of this process expires.
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
        this.#health.hold(lease.release()).catch(() => this.#watch.check())
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
