import { type Clock, suspendedMs, wallOffset } from '../../limiter/core/clock.js'
import { type Duration, parseStoredOption } from '../../limiter/core/duration.js'
import { NotInitializedError, PolicyError, shown } from '../../limiter/core/errors.js'
import { checkFlag } from '../../limiter/core/options.js'
import { randomText } from '../../limiter/core/short-key.js'
import type { RedisClient } from '../../redis/client.js'
import { Commands, clockArgument } from '../../redis/commands.js'
import type { Script } from '../../redis/script.js'
import { semaphoreDelete, semaphoreForce, semaphoreLook, semaphoreResume, semaphoreSet } from '../../redis/scripts.js'

/** 132 random bits. */
export function newLeaseId(): string {
  return randomText(22)
}

const LEASE_MS = 30_000

/** The length of a lease, ms; at most ten years. Throws `PolicyError`, in which `what` names the option. */
export function leaseMsOf(lease: Duration | undefined, what: string): number {
  return lease === undefined ? LEASE_MS : parseStoredOption(lease, what, '30s')
}

/** The length of a lease, ms. Throws `PolicyError`, in which `method` names the called method. */
export function leaseOf({ lease, renew }: { lease?: Duration; renew?: boolean }, method: string): number {
  if (renew !== undefined) checkFlag(renew, `${method}: renew`)
  return leaseMsOf(lease, `${method}: lease`)
}

export function checkTotal(permits: unknown, what: string): void {
  if (Number.isSafeInteger(permits) && (permits as number) >= 0) return
  throw new PolicyError(`${what}: given ${shown(permits)}, expected an integer ≥ 0, like 5`)
}

export function checkId(id: unknown, method: string): string {
  if (typeof id === 'string' && id !== '') return id
  throw new PolicyError(`${method}: id ${shown(id)}: expected the id of a lease, like lease.id`)
}

interface SemaphoreCommandsOptions {
  /** The name of the semaphore in errors, like `Semaphore "jobs"`. */
  readonly subject: string
  /** The beginning of its keys. */
  readonly base: string
  /** The beginning of the channel names of all processes. */
  readonly channel: string
  readonly permits: number | undefined
  readonly fixed: boolean
  readonly idleMs: number | undefined
  readonly clock: Clock | undefined
}

/** A lease as the server returns it. */
export interface Grant {
  readonly id: string
  /** The name of the lease in the scripts. */
  readonly name: string
  readonly token: bigint
  /** ms since the epoch, by the server's clock or the given one. */
  readonly expiresAt: number
  /** Before the grant: a lease counted from here ends no later than on the server. */
  readonly asked: Asked
}

/** When a command was sent, by both clocks. */
export class Asked {
  constructor(
    /** By `performance.now()`. */
    readonly at = performance.now(),
    /** See `wallOffset`. */
    readonly offset = wallOffset(),
  ) {}

  /** How long ago that was, including the time for which the machine was suspended since. */
  get ageMs(): number {
    const now = performance.now()
    return now - this.at + suspendedMs(this.offset, now)
  }
}

type Reply = ReadonlyArray<number | string>

/** The commands of one semaphore. Every method rejects with `StoreError` when Redis fails. */
export class SemaphoreCommands {
  readonly subject: string
  readonly channel: string
  readonly clock: Clock | undefined
  readonly keys: readonly string[]
  /** How long its keys live while nothing is held, in ms; -1: for ever. */
  readonly idle: string
  /** The number of permits that applies whatever is stored; '-1' if there is none. */
  readonly fixed: string
  /** The newest fencing token seen by this object: every granted token is higher, also after Redis lost its keys. */
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
    this.fixed = fixed ? String(permits) : '-1'
    this.#base = base
    this.#initial = String(fixed ? -2 - permits : permits)
    this.#commands = new Commands(client, subject, base)
  }

  /** The clock argument of the scripts; '' for the server's clock. */
  get now(): string {
    return clockArgument(this.clock)
  }

  /** False with a given clock: direct takes, and leases without a fact, go by the server's. */
  get isTimedByServer(): boolean {
    return this.clock === undefined
  }

  /** The first arguments of every script. */
  get common(): string[] {
    return [this.now, this.#initial, this.idle, this.channel]
  }

  /**
   * The keys of a direct take. The first is that of the leases while permits are taken directly: see `sweep` in
   * lua/waiting/semaphore/semaphores.lua.
   */
  get directKeys(): readonly string[] {
    const [config, , facts, , , , direct] = this.keys
    return [direct, facts, config]
  }

  /** The key in which the server records its answer to a member of the line. */
  record(member: string): string {
    return `${this.#base}:sent:${member}`
  }

  saw(token: bigint): bigint {
    if (token > this.newest) this.newest = token
    return token
  }

  /** Takes a lease over as `address`; null if there is no lease with this id. */
  async resume(id: string, leaseMs: number, address: string): Promise<(Grant & { readonly permits: number }) | null> {
    const asked = new Asked()
    const reply = await this.#once(semaphoreResume, [id, address, String(leaseMs), String(this.newest)])
    const [found, token, expiresAt, permits] = reply
    if (found !== 1) return null
    return {
      id,
      name: id,
      token: this.saw(BigInt(token)),
      expiresAt: Number(expiresAt),
      permits: Number(permits),
      asked,
    }
  }

  /** Ends a lease, regardless of its holder. */
  async force(id: string): Promise<boolean> {
    return (await this.#once(semaphoreForce, [id]))[0] === 1
  }

  async set(verb: 'try' | 'set' | 'add', permits: number): Promise<{ done: boolean; permits: number }> {
    const [done, total] = await this.#once(semaphoreSet, [verb, String(permits)])
    return { done: done === 1, permits: Number(total) }
  }

  /**
   * The permits, the number of permits held, the number of waiters; then id, deadline and permits of each lease, if
   * requested.
   */
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
