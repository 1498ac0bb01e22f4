import { Deadline } from '../../core/deadline.js'
import { StoreError, TimeoutError } from '../../core/errors.js'
import { CircuitBreaker } from '../../limiter/circuit-breaker.js'
import type { ClientPort, RedisClient } from '../../redis/client.js'
import { keySegment } from '../../redis/keys.js'
import { portOf } from '../../redis/port-of.js'
import type { Lease } from '../../semaphore/lease.js'
import { Semaphore } from '../../semaphore/semaphore.js'
import type { Place, Places } from './places.js'
import { ProcessPlaces } from './process-places.js'

/** Semaphores of keys that nobody is inside of, kept because their requests come again. */
const MOST_IDLE = 1000
const IDLE_TTL = '10s'

export interface SharedPlacesOptions {
  readonly client: RedisClient
  readonly prefix: string
  readonly name: string
  readonly permits: number
  readonly leaseMs: number
  readonly deadlineMs: number
}

interface Room {
  readonly semaphore: Semaphore
  users: number
}

/**
 * Places over all processes: leases of one semaphore a key. When Redis does not answer within the deadline this process counts alone,
 * with as many permits: each process may then let in so many.
 */
export class SharedPlaces implements Places {
  readonly #options: SharedPlacesOptions
  readonly #port: ClientPort
  readonly #alone: ProcessPlaces
  readonly #breaker = new CircuitBreaker()
  readonly #deadline: Deadline
  /** Rooms with users. */
  readonly #rooms = new Map<string, Room>()
  /** Rooms without users, the least recently used first. Apart from the others, so that one long request does not keep all of them. */
  readonly #idle = new Map<string, Room>()

  constructor(options: SharedPlacesOptions) {
    this.#options = options
    this.#port = portOf(options.client, 'concurrencyLimit')
    this.#alone = new ProcessPlaces(options.permits)
    this.#deadline = new Deadline(
      options.deadlineMs,
      () => this.#breaker.stir(),
      () => this.#breaker.silence(),
    )
    // Checks the options that are a semaphore's.
    this.#semaphoreOf('')
  }

  async enter(key: string): Promise<Place | null> {
    const now = performance.now()
    if (this.#port.state() === 'down' || (this.#breaker.isOpen && this.#breaker.passage(now) === 'refuse')) {
      this.#port.wake()
      return this.#alone.enter(key)
    }
    const room = this.#join(key)
    const asked = room.semaphore.tryAcquire({ lease: this.#options.leaseMs })
    try {
      const lease = await this.#deadline.hold(asked)
      this.#breaker.succeed(performance.now())
      if (lease !== null) return this.#placeOf(lease, key, room)
      this.#leave(key, room)
      return null
    } catch (error) {
      this.#leave(key, room)
      if (!(error instanceof StoreError)) throw error
      this.#breaker.fail(performance.now())
      // What is granted too late nobody will use.
      asked.then(lease => lease?.release()).catch(() => {})
      return this.#alone.enter(key)
    }
  }

  async wait(key: string, ms: number, signal: AbortSignal): Promise<Place | null> {
    const startedAt = performance.now()
    const room = this.#join(key)
    try {
      const lease = await room.semaphore.acquire({ lease: this.#options.leaseMs, timeout: ms, signal })
      return this.#placeOf(lease, key, room)
    } catch (error) {
      this.#leave(key, room)
      if (error instanceof TimeoutError) return null
      if (!(error instanceof StoreError)) throw error
      this.#breaker.fail(performance.now())
      return this.#alone.wait(key, Math.max(0, startedAt + ms - performance.now()), signal)
    }
  }

  async close(): Promise<void> {
    const rooms = [...this.#rooms.values(), ...this.#idle.values()]
    await Promise.all([this.#alone.close(), ...rooms.map(({ semaphore }) => semaphore.close())])
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
    return {
      leave: () => {
        this.#leave(key, room)
        // If that fails the lease ends at its deadline.
        lease.release().catch(() => {})
      },
    }
  }

  #semaphoreOf(key: string): Semaphore {
    const { client, prefix, name, permits } = this.#options
    // A segment has no colon, so that no two pairs of name and key are one.
    return new Semaphore(client, `${keySegment(name)}:${key}`, { permits, prefix, idleTtl: IDLE_TTL, fixed: true })
  }
}
