import { type Clock, suspendedMs, wallOffset } from '../../limiter/core/clock.js'
import { type Duration, parseStoredOption } from '../../limiter/core/duration.js'
import { NotInitializedError, PolicyError, shown } from '../../limiter/core/errors.js'
import type { Listed } from '../../limiter/core/listed.js'
import { checkFlag } from '../../limiter/core/options.js'
import type { RedisClient } from '../../redis/client.js'
import { Commands, clockArgument } from '../../redis/commands.js'
import type { Script } from '../../redis/script.js'
import { semaphoreDelete, semaphoreForce, semaphoreLook, semaphoreResume, semaphoreSet } from '../../redis/scripts.js'
import { leaseFacts, newLeaseNameEnd } from './lease-name.js'

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

/** A held lease, as `holders` lists it. */
export interface LeaseInfo {
  /** `resume` takes the lease over by this id. */
  readonly id: string
  /** How many permits it holds. */
  readonly permits: number
  /** ms since the epoch, by the server's clock. */
  readonly expiresAt: number
  /** When it was asked for: ms since the epoch, by the clock of its process. */
  readonly since: number
  /** The process that holds it: 12 letters that it has chosen, different for each client and prefix. */
  readonly heldBy: string
}

/** What a semaphore holds. */
export interface SemaphoreView {
  /** The number of permits, held or not. */
  readonly permits: number
  /** The number of permits not held; below 0 if more are held than exist. */
  readonly available: number
  /** The number of waiters in all processes. */
  readonly waiting: number
  /** For how long the first of them has waited, ms; 0 if none waits. */
  readonly longestWaitMs: number
  /** The held leases, those that end first at the beginning. */
  readonly holders: Listed<LeaseInfo>
}

/** A lease as the server returns it. */
export interface Grant {
  readonly id: string
  /** A copy of the take may still come: whoever ends this lease leaves its name. */
  readonly mayCome: boolean
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
  /** How long its keys live while nothing is held, in ms; '-1': for ever. */
  readonly idle: string
  /** '5' if none are stored, '=5' whatever is stored, '' only those that are: see `given` in semaphores.lua. */
  readonly permits: string
  /** `!room` of a table without leases of several permits, if the number of permits is fixed; else ''. */
  readonly fixedRoom: string
  /** The deadline of everything that is asked of Redis. */
  readonly calls: Commands
  /** The newest fencing token seen by this object: every granted token is higher, also after Redis lost its keys. */
  newest = 0n
  readonly #base: string

  constructor(client: RedisClient, options: SemaphoreCommandsOptions) {
    const { subject, base, channel, permits, fixed, idleMs = -1, clock } = options
    this.subject = subject
    this.channel = channel
    this.clock = clock
    this.keys = [base, ...['open', 'held', 'line', 'asks', 'meta'].map(part => `${base}:${part}`)]
    this.idle = String(idleMs)
    this.permits = `${fixed ? '=' : ''}${permits ?? ''}`
    this.fixedRoom = fixed ? String(4e15 + Math.min(permits!, 1e15)) : ''
    this.#base = base
    this.calls = new Commands(client, subject, base)
  }

  /** The clock argument of the scripts; '' for the server's clock. */
  get now(): string {
    return clockArgument(this.clock)
  }

  /** The first arguments of every script. */
  get common(): string[] {
    return [this.now, this.permits, this.idle, this.channel]
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
  async resume(id: string, leaseMs: number, address: string): Promise<Grant | null> {
    const asked = new Asked()
    const args = [id, newLeaseNameEnd(address), String(leaseMs), String(this.newest)]
    const [found, token, expiresAt, name] = await this.#once(semaphoreResume, args)
    if (found !== 1) return null
    const granted = this.saw(BigInt(token))
    return { id: String(name), mayCome: false, token: granted, expiresAt: Number(expiresAt), asked }
  }

  /** Ends a lease, regardless of its holder. */
  async force(id: string): Promise<boolean> {
    return (await this.#once(semaphoreForce, [id]))[0] === 1
  }

  async set(verb: 'try' | 'set' | 'add', permits: number): Promise<{ done: boolean; permits: number }> {
    const [done, total] = await this.#once(semaphoreSet, [verb, String(permits)])
    return { done: done === 1, permits: Number(total) }
  }

  /** What it holds, with at most `limit` leases, those that end first; -1: all. */
  async look(limit = 0): Promise<SemaphoreView> {
    const args = [this.now, this.permits, String(limit)]
    const reply = this.#checked(await this.calls.run(semaphoreLook, this.keys, args))
    const [permits, used, waiting, longestWaitMs, more] = reply.map(Number)
    const items: LeaseInfo[] = []
    for (let i = 5; i < reply.length; i += 2) {
      const id = String(reply[i])
      items.push({ id, expiresAt: Number(reply[i + 1]), ...leaseFacts(id) })
    }
    return { permits, available: permits - used, waiting, longestWaitMs, holders: { items, more } }
  }

  async delete(): Promise<boolean> {
    const reply = await this.calls.once(semaphoreDelete, this.keys, [this.channel])
    return (reply as number[])[0] === 1
  }

  unset(): NotInitializedError {
    return new NotInitializedError(
      `${this.subject}: has no permits yet: expected trySetPermits(5), or new Semaphore(client, name, { permits: 5 })`,
    )
  }

  async #once(script: Script, args: readonly string[]): Promise<Reply> {
    return this.#checked(await this.calls.once(script, this.keys, [...this.common, ...args]))
  }

  #checked(reply: unknown): Reply {
    const fields = reply as Reply
    if (fields[0] === -2) throw this.unset()
    return fields
  }
}
