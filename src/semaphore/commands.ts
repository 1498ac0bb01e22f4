import { randomBytes } from 'node:crypto'
import type { Clock } from '../core/clock.js'
import { CostError, NotInitializedError } from '../core/errors.js'
import type { RedisClient } from '../redis/client.js'
import { Commands } from '../redis/commands.js'
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
import { TurnBatch } from '../redis/turn-batch.js'
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

interface Asker<Answer> {
  resolve(answer: Answer): void
  reject(error: unknown): void
}

interface Acquiring extends Asker<Grant | NotYet> {
  readonly claim: Claim
  readonly waits: boolean
  readonly place: string
}

interface Releasing extends Asker<boolean> {
  readonly id: string
  readonly what: string
}

type Ask = Acquiring | Releasing

/** As many as a call takes: while the server sees to one, the next is made ready. */
const MOST_AT_ONCE = 32

function alike(last: Ask, ask: Ask): boolean {
  if (!('claim' in last)) return !('claim' in ask)
  return (
    'claim' in ask &&
    last.claim.permits === ask.claim.permits &&
    last.claim.leaseMs === ask.claim.leaseMs &&
    last.waits === ask.waits &&
    ask.place === ''
  )
}

/** One semaphore, as Redis is asked about it. Everything rejects with `StoreError` when Redis fails. */
export class SemaphoreCommands {
  readonly keys: readonly string[]
  /** Lifetime in ms where nothing is held; -1 for none. */
  readonly idle: string
  readonly #initial: string
  readonly #commands: Commands
  readonly #waiting: Mailbox
  readonly #gathering = new TurnBatch<Ask>(alike, MOST_AT_ONCE, asks => this.#send(asks))
  /** Where the server keeps what it answered to releases: one key for each that is on its way, used again and again. */
  readonly #sentKey: string
  readonly #slots: string[] = []
  #slot = 0
  #number = 1

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
    this.#sentKey = `${keyBase}:sent:${randomBytes(9).toString('base64url')}:`
  }

  readonly clock: Clock | undefined

  /** For the scripts; '' for the server's clock. */
  get now(): string {
    return this.clock === undefined ? '' : String(Math.floor(this.clock.now()))
  }

  /** Asked at the end of the turn, together with all that are alike. */
  acquire(claim: Claim, waits: boolean, place: string): Promise<Grant | NotYet> {
    return new Promise((resolve, reject) => {
      this.#gathering.add({ claim, waits, place, resolve, reject })
    })
  }

  /** True if a lease has ended by it. Asked at the end of the turn; what is held goes first, so that others may have it. */
  release(id: string, what: Ending): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.#gathering.add({ id, what: String(what), resolve, reject }, typeof what === 'bigint')
    })
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
    this.#gathering.flush()
    const reply = await this.#commands.once(semaphoreDelete, this.keys, [this.#waiting.channel, this.idle])
    return (reply as number[])[0] === 1
  }

  #send(asks: readonly Ask[]): void {
    const sent =
      'claim' in asks[0] ? this.#acquire(asks as readonly Acquiring[]) : this.#release(asks as readonly Releasing[])
    sent.catch(error => {
      for (const ask of asks) ask.reject(error)
    })
  }

  async #acquire(asks: readonly Acquiring[]): Promise<void> {
    const askedAt = performance.now()
    const { claim, waits, place } = asks[0]
    const { permits } = claim
    const args = [
      ...this.#common(),
      this.#waiting.party,
      String(permits),
      String(claim.leaseMs),
      waits ? '1' : '0',
      place,
    ]
    for (const ask of asks) args.push(ask.claim.id)
    const reply = this.#checked(await this.#commands.run(semaphoreAcquire, this.keys, args))
    const nextMs = Number(reply[3 * asks.length])
    const pauseMs = Number(reply[3 * asks.length + 1])
    for (let i = 0; i < asks.length; i++) {
      const what = reply[3 * i + 1]
      if (reply[3 * i] === 1) asks[i].resolve({ token: BigInt(what), expiresAt: Number(reply[3 * i + 2]), askedAt })
      else if (reply[3 * i] === 0) asks[i].resolve({ place: String(what), nextMs, pauseMs })
      else {
        const why = `${this.subject}: permits ${permits}: there are ${what} in all, waiting would not help`
        asks[i].reject(new CostError(why))
      }
    }
  }

  async #release(asks: readonly Releasing[]): Promise<void> {
    // Where it failed the client may send it again, at any time: nothing else may be kept there.
    const slot = this.#slots.pop() ?? `${this.#sentKey}${this.#slot++}`
    const args = [String(this.#number++), ...this.#common()]
    for (const { id, what } of asks) args.push(id, what)
    const reply = await this.#commands.run(semaphoreRelease, [...this.keys, slot], args)
    this.#slots.push(slot)
    const ended = this.#checked(reply)
    for (let i = 0; i < asks.length; i++) asks[i].resolve(ended[i] === 1)
  }

  async #run(script: Script, args: readonly string[]): Promise<Array<number | string>> {
    this.#gathering.flush()
    return this.#checked(await this.#commands.run(script, this.keys, [...this.#common(), ...args]))
  }

  async #once(script: Script, args: readonly string[]): Promise<Array<number | string>> {
    this.#gathering.flush()
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
