import type { Clock } from '../clock.js'
import { CostError, NotInitializedError } from '../errors.js'
import type { RedisClient } from '../redis/client.js'
import type { Script } from '../redis/script.js'
import {
  semaphoreAcquire,
  semaphoreDelete,
  semaphoreLook,
  semaphoreRelease,
  semaphoreResume,
  semaphoreSet,
  semaphoreTick,
} from '../redis/scripts.js'
import { Commands } from './commands.js'
import type { Mailbox } from './mailbox.js'

/** What is asked for: by whom is known. */
export interface Claim {
  readonly id: string
  readonly permits: number
  readonly leaseMs: number
}

export interface Grant {
  readonly token: bigint
  /** ms since the epoch, by the server's clock or the one given. */
  readonly expiresAt: number
  /** Of `performance.now()`: before it was granted, so that what is reckoned from here ends no later than the server has it. */
  readonly askedAt: number
}

/** Not free. `place` in the line is '' for who does not wait; `nextMs` until the first lease ends, -1 if there is none. */
export interface NotYet {
  readonly place: string
  readonly nextMs: number
  /** How long who waits may be silent; 0: not known. */
  readonly pauseMs: number
}

export interface Tick extends Omit<NotYet, 'place'> {
  /** Those who wait are in the line still. */
  readonly known: boolean
  /** Ids for which permits are put by. */
  readonly offered: readonly string[]
}

/** What a release is to end: the lease of this token, the lease whoever holds it, the wait, or whichever of them there is. */
export type Ending = bigint | 'force' | 'wait' | 'any'

/** One semaphore, as Redis is asked about it. Everything rejects with `StoreError` when Redis fails. */
export class SemaphoreCommands {
  readonly keys: readonly string[]
  /** Lifetime in ms where nothing is held; -1 for none. */
  readonly idle: string
  readonly #initial: string
  readonly #commands: Commands
  readonly #waiting: Mailbox

  constructor(
    client: RedisClient,
    readonly subject: string,
    keyBase: string,
    mailbox: Mailbox,
    options: { readonly permits?: number; readonly fixed: boolean; readonly idleMs?: number; readonly clock?: Clock },
  ) {
    this.keys = [keyBase, ...['leases', 'facts', 'line', 'offers', 'parties'].map(part => `${keyBase}:${part}`)]
    this.idle = String(options.idleMs ?? -1)
    this.clock = options.clock
    const { permits = -1, fixed } = options
    this.#initial = String(fixed ? -2 - permits : permits)
    this.#commands = new Commands(client, subject, keyBase)
    this.#waiting = mailbox
  }

  readonly clock: Clock | undefined

  /** For the scripts; '' for the server's clock. */
  get now(): string {
    return this.clock === undefined ? '' : String(Math.floor(this.clock.now()))
  }

  async acquire({ id, permits, leaseMs }: Claim, waits: boolean, place: string): Promise<Grant | NotYet> {
    const askedAt = performance.now()
    const args = [id, this.#waiting.party, String(permits), String(leaseMs), waits ? '1' : '0', place]
    const [outcome, first, second, third] = await this.#run(semaphoreAcquire, args)
    if (outcome === 1) return { token: BigInt(first), expiresAt: Number(second), askedAt }
    if (outcome === 0) return { place: String(first), nextMs: Number(second), pauseMs: Number(third) }
    throw new CostError(`${this.subject}: permits ${permits}: there are ${first} in all, waiting would not help`)
  }

  /** True if a lease has ended by it. */
  async release(id: string, what: Ending): Promise<boolean> {
    const [ended] = await this.#once(semaphoreRelease, [id, String(what)])
    return ended === 1
  }

  async resume(id: string, leaseMs: number): Promise<(Grant & { readonly permits: number }) | null> {
    const askedAt = performance.now()
    const args = [id, this.#waiting.party, String(leaseMs)]
    const [found, token, expiresAt, permits] = await this.#run(semaphoreResume, args)
    if (found !== 1) return null
    return { token: BigInt(token), expiresAt: Number(expiresAt), permits: Number(permits), askedAt }
  }

  /** A sign of life of those who wait; `oldest` is the first of them. */
  async tick(oldest: string): Promise<Tick> {
    const [known, nextMs, pauseMs, ...offered] = await this.#run(semaphoreTick, [this.#waiting.party, oldest])
    return { known: known === 1, nextMs: Number(nextMs), pauseMs: Number(pauseMs), offered: offered.map(String) }
  }

  async set(verb: 'try' | 'set' | 'add', permits: number): Promise<{ done: boolean; permits: number }> {
    const [done, total] = await this.#once(semaphoreSet, [verb, String(permits)])
    return { done: done === 1, permits: Number(total) }
  }

  /** Permits, how many of them are out, and what else was asked for. */
  async look(what: 'permits' | 'leases' | 'line'): Promise<Array<number | string>> {
    return this.#run(semaphoreLook, [what])
  }

  async delete(): Promise<boolean> {
    const reply = await this.#commands.once(semaphoreDelete, this.keys, [this.#waiting.channel, this.idle])
    return (reply as number[])[0] === 1
  }

  async #run(script: Script, args: readonly string[]): Promise<Array<number | string>> {
    return this.#checked(await this.#commands.run(script, this.keys, [...this.#common(), ...args]))
  }

  async #once(script: Script, args: readonly string[]): Promise<Array<number | string>> {
    return this.#checked(await this.#commands.once(script, this.keys, [...this.#common(), ...args]))
  }

  #common(): string[] {
    return [this.now, this.#initial, this.idle, this.#waiting.channel]
  }

  #checked(reply: unknown): Array<number | string> {
    const fields = reply as Array<number | string>
    if (fields[0] !== -2) return fields
    throw new NotInitializedError(
      `${this.subject}: has no permits yet: expected trySetPermits(5), or new Semaphore(client, name, { permits: 5 })`,
    )
  }
}
