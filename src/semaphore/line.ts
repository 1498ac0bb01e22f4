import { randomFillSync } from 'node:crypto'
import { type SpillwayError, StoreError } from '../core/errors.js'
import { Alarm } from '../waiting/alarm.js'
import { type Patience, Wait } from '../waiting/wait.js'
import type { Claim, Grant, SemaphoreCommands } from './commands.js'
import type { Mailbox } from './mailbox.js'

/** Between two signs of life of those who wait, at most, unless the server says more. */
const PAUSE_MS = 900
/** The same where nothing can be heard, so that one has to ask. */
const DEAF_PAUSE_MS = 200
/** How long permits are put by for who is told of them. */
const OFFER_MS = 500
/** Those who wait bear an outage of so long. */
const OUTAGE_MS = 10_000

interface Waiter extends Claim {
  readonly wait: Wait<Grant | null>
  /** '' until the first answer. */
  place: string
  asking: boolean
  /** Told to ask while it was asking. */
  told: boolean
}

/**
 * Those of one process who wait for permits of a semaphore. The line itself is in Redis, which puts permits by for the first in it
 * and says so; whoever is told takes them by asking again. All give signs of life together, which also find what was missed.
 */
export class SemaphoreLine {
  readonly #commands: SemaphoreCommands
  readonly #mailbox: Mailbox
  /** In the order in which they came. */
  readonly #waiters = new Map<string, Waiter>()
  readonly #alarm = new Alarm(() => this.#ring())
  #ringsAt = Number.POSITIVE_INFINITY
  #ticking = false
  #pauseMs = PAUSE_MS
  #failingSince: number | undefined

  constructor(commands: SemaphoreCommands, mailbox: Mailbox) {
    this.#commands = commands
    this.#mailbox = mailbox
  }

  /**
   * Takes permits: null if they are not free and the patience is 0, or over. Rejects with the signal's reason, `CostError`,
   * `NotInitializedError`, and with `StoreError` if Redis fails at first, or for ten seconds on end.
   */
  async take(permits: number, leaseMs: number, patience: Patience): Promise<(Grant & { readonly id: string }) | null> {
    patience.signal?.throwIfAborted()
    const id = newId()
    const waits = patience.timeoutMs > 0
    const wait = new Wait<Grant | null>(
      waits ? patience : { ...patience, timeoutMs: Number.POSITIVE_INFINITY },
      () => {
        this.#leave(waiter)
        wait.resolve(null)
      },
      () => this.#leave(waiter),
    )
    const waiter: Waiter = { id, permits, leaseMs, wait, place: '', asking: false, told: false }
    this.#waiters.set(id, waiter)
    this.#mailbox.hold()
    void this.#ask(waiter, waits)
    const grant = await wait.promise
    return grant && { ...grant, id }
  }

  hear(text: string): void {
    if (text === '*') {
      for (const waiter of [...this.#waiters.values()]) this.#tell(waiter)
      return
    }
    const waiter = this.#waiters.get(text)
    if (waiter) this.#tell(waiter)
    else if (text === '!') this.#ringIn(OFFER_MS)
    else this.#giveBack(text, 'wait')
  }

  /** Something may have been missed. */
  look(): void {
    if (this.#waiters.size > 0) void this.#tick()
  }

  /** All who wait are sent away with `reason`. */
  async close(reason: SpillwayError): Promise<void> {
    const all = [...this.#waiters.values()]
    await Promise.all(
      all.map(waiter => {
        const left = this.#leave(waiter)
        waiter.wait.reject(reason)
        return left
      }),
    )
  }

  #tell(waiter: Waiter): void {
    if (waiter.asking) waiter.told = true
    else void this.#ask(waiter, true)
  }

  async #ask(waiter: Waiter, waits: boolean): Promise<void> {
    const { id, wait } = waiter
    waiter.asking = true
    waiter.told = false
    try {
      const answer = await this.#commands.acquire(waiter, waits, waiter.place)
      waiter.asking = false
      this.#failingSince = undefined
      if ('token' in answer) {
        this.#remove(waiter)
        // Gone at the very moment: nobody would give it back.
        if (wait.over) this.#giveBack(id, 'any')
        else wait.resolve(answer)
      } else if (!waits) {
        this.#remove(waiter)
        wait.resolve(null)
      } else if (!wait.over) {
        waiter.place = answer.place
        this.#pauseMs = answer.pauseMs
        if (waiter.told) void this.#ask(waiter, true)
        else this.#ringIn(answer.nextMs)
      }
    } catch (error) {
      waiter.asking = false
      if (wait.over) return
      if (error instanceof StoreError && waiter.place !== '') {
        this.#failed(error)
        return
      }
      this.#remove(waiter)
      // It may have been granted all the same.
      if (error instanceof StoreError) this.#giveBack(id, 'any')
      wait.reject(error)
    }
  }

  #ring(): void {
    this.#ringsAt = Number.POSITIVE_INFINITY
    void this.#tick()
  }

  async #tick(): Promise<void> {
    this.#ringIn(-1)
    const oldest = [...this.#waiters.values()].find(({ asking }) => !asking)
    if (oldest === undefined || this.#ticking) return
    this.#ticking = true
    try {
      const { known, nextMs, pauseMs, offered } = await this.#commands.tick(oldest.id)
      this.#failingSince = undefined
      if (known) this.#pauseMs = pauseMs
      else this.hear('*')
      for (const id of offered) this.hear(id)
      this.#ringIn(nextMs)
    } catch (error) {
      this.#failed(error)
    }
    this.#ticking = false
  }

  #failed(error: unknown): void {
    const now = performance.now()
    this.#failingSince ??= now
    if (now - this.#failingSince < OUTAGE_MS) {
      this.#ringIn(-1)
      return
    }
    this.#failingSince = undefined
    for (const waiter of [...this.#waiters.values()]) {
      void this.#leave(waiter)
      waiter.wait.reject(error)
    }
  }

  /** Looks again when the first lease ends (`nextMs`, -1 if there is none), or after the usual pause. */
  #ringIn(nextMs: number): void {
    if (this.#waiters.size === 0) return
    const longest = this.#mailbox.live ? this.#pauseMs : this.#mailbox.canHear ? PAUSE_MS : DEAF_PAUSE_MS
    // Many who came at one moment shall not all ask at one moment.
    const pause = longest * (0.5 + Math.random() / 2)
    const at = performance.now() + (nextMs < 0 ? pause : Math.min(pause, nextMs + 1))
    if (at >= this.#ringsAt) return
    this.#ringsAt = at
    this.#alarm.set(at)
  }

  #leave(waiter: Waiter): Promise<void> {
    this.#remove(waiter)
    return this.#giveBack(waiter.id, 'any')
  }

  #remove(waiter: Waiter): void {
    if (!this.#waiters.delete(waiter.id)) return
    this.#mailbox.release()
    if (this.#waiters.size > 0) return
    this.#alarm.clear()
    this.#ringsAt = Number.POSITIVE_INFINITY
  }

  /** Nobody can be told if it fails: then what is put by lapses, and a lease ends at its deadline. */
  async #giveBack(id: string, what: 'wait' | 'any'): Promise<void> {
    await this.#commands.release(id, what).catch(() => {})
  }
}

const ID_BYTES = 16
const pool = Buffer.alloc(256 * ID_BYTES)
let used = pool.length

/** 128 random bits. They are drawn for many at a time: asking the system costs more than all else that is done for one. */
function newId(): string {
  if (used === pool.length) {
    randomFillSync(pool)
    used = 0
  }
  used += ID_BYTES
  return pool.toString('base64url', used - ID_BYTES, used)
}
