import type { Clock } from '../core/clock.js'
import { NotInitializedError } from '../core/errors.js'
import type { RedisClient } from '../redis/client.js'
import { Commands } from '../redis/commands.js'
import type { Script } from '../redis/script.js'
import { semaphoreDelete, semaphoreForce, semaphoreLook, semaphoreResume, semaphoreSet } from '../redis/scripts.js'

interface SemaphoreCommandsOptions {
  /** How errors call the semaphore, like `Semaphore "jobs"`. */
  readonly subject: string
  /** What its keys begin with. */
  readonly base: string
  /** What the channels of all processes begin with. */
  readonly channel: string
  readonly permits: number | undefined
  readonly fixed: boolean
  readonly idleMs: number | undefined
  readonly clock: Clock | undefined
}

/** A lease as the server tells of it. */
export interface Grant {
  readonly id: string
  /** What the scripts call it. */
  readonly name: string
  readonly token: bigint
  /** ms since the epoch, by the server's clock or the one given. */
  readonly expiresAt: number
  /** Of `performance.now()`: before it was granted, so that what is reckoned from here ends no later than the server has it. */
  readonly askedAt: number
}

type Reply = ReadonlyArray<number | string>

/** One semaphore, as Redis is asked about it. Everything rejects with `StoreError` when Redis fails. */
export class SemaphoreCommands {
  readonly subject: string
  readonly channel: string
  readonly clock: Clock | undefined
  readonly keys: readonly string[]
  /** Lifetime in ms where nothing is held; -1 for none. */
  readonly idle: string
  /** False where permits are never taken directly: the clock, the number or the lifetime that this object was given has to be told each time. */
  readonly mayBeDirect: boolean
  /** The newest fencing token that was seen here: none that is granted is below it, also after Redis lost its keys. */
  newest = 0n
  readonly #base: string
  readonly #initial: string
  readonly #commands: Commands

  constructor(client: RedisClient, options: SemaphoreCommandsOptions) {
    const { subject, base, channel, permits = -1, fixed, idleMs = -1, clock } = options
    this.subject = subject
    this.channel = channel
    this.clock = clock
    this.keys = [base, ...['leases', 'facts', 'line', 'asks', 'meta', 'direct'].map(part => `${base}:${part}`)]
    this.idle = String(idleMs)
    this.mayBeDirect = clock === undefined && !fixed && idleMs < 0
    this.#base = base
    this.#initial = String(fixed ? -2 - permits : permits)
    this.#commands = new Commands(client, subject, base)
  }

  /** For the scripts; '' for the server's clock. */
  get now(): string {
    return this.clock === undefined ? '' : String(Math.floor(this.clock.now()))
  }

  /** What scripts are told first. */
  get common(): string[] {
    return [this.now, this.#initial, this.idle, this.channel]
  }

  /** Where the leases are while permits are taken directly: see semaphore_direct.lua. */
  get directKey(): string {
    return this.keys[6]
  }

  /** Where the server keeps what it answered to a member of the line. */
  record(member: string): string {
    return `${this.#base}:sent:${member}`
  }

  saw(token: bigint): bigint {
    if (token > this.newest) this.newest = token
    return token
  }

  /** Takes a lease over as `address`; null if there is none of that id. */
  async resume(id: string, leaseMs: number, address: string): Promise<(Grant & { readonly permits: number }) | null> {
    const askedAt = performance.now()
    const reply = await this.#once(semaphoreResume, [id, address, String(leaseMs), String(this.newest)])
    const [found, token, expiresAt, permits] = reply
    if (found !== 1) return null
    return {
      id,
      name: id,
      token: this.saw(BigInt(token)),
      expiresAt: Number(expiresAt),
      permits: Number(permits),
      askedAt,
    }
  }

  /** Ends a lease, whoever holds it. */
  async force(id: string): Promise<boolean> {
    return (await this.#once(semaphoreForce, [id]))[0] === 1
  }

  async set(verb: 'try' | 'set' | 'add', permits: number): Promise<{ done: boolean; permits: number }> {
    const [done, total] = await this.#once(semaphoreSet, [verb, String(permits)])
    return { done: done === 1, permits: Number(total) }
  }

  /** Permits, how many of them are out, how many wait; then id, deadline and permits of each lease, if they are asked for. */
  async look(leases = false): Promise<Reply> {
    return this.#checked(await this.#commands.run(semaphoreLook, this.keys, [...this.common, leases ? '1' : '0']))
  }

  async delete(): Promise<boolean> {
    const reply = await this.#commands.once(semaphoreDelete, this.keys, [this.channel, this.idle])
    return (reply as number[])[0] === 1
  }

  unset(): NotInitializedError {
    return new NotInitializedError(
      `${this.subject}: has no permits yet: expected trySetPermits(5), or new Semaphore(client, name, { permits: 5 })`,
    )
  }

  async #once(script: Script, args: readonly string[]): Promise<Reply> {
    return this.#checked(await this.#commands.once(script, this.keys, [...this.common, ...args]))
  }

  #checked(reply: unknown): Reply {
    const fields = reply as Reply
    if (fields[0] === -2) throw this.unset()
    return fields
  }
}
