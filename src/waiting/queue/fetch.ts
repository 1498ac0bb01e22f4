import { ServerClockBelow } from '../../redis/timely-scripts.js'

/** Redis keeps the last fetch of a process for this long, to repeat its answer. */
const KEPT_MS = 60_000

/**
 * Numbers the fetches. A fetch whose answer was lost is sent again under its number and gets the same messages, so that
 * they count as delivered only once.
 */
export class FetchNumber {
  #value = 1
  #unreadSince: number | undefined

  get value(): number {
    return this.#value
  }

  /** False before the first answered fetch: Redis keeps nothing until then. */
  get used(): boolean {
    return this.#value > 1
  }

  /** True if the answer to a fetch was lost and Redis may still keep it. */
  get unread(): boolean {
    return this.#unreadSince !== undefined && performance.now() - this.#unreadSince <= KEPT_MS
  }

  answered(): void {
    this.#value++
    this.#unreadSince = undefined
  }

  failed(): void {
    this.#unreadSince ??= performance.now()
  }
}

/**
 * The ways to settle a delivery; `return` puts the message back as if it had never been taken, `return_not_begun`
 * one whose attempt does not count yet. `begin`: the attempt counts from now on, and the visibility starts again.
 */
export type SettlementKind = 'ack' | 'nack' | 'return' | 'return_not_begun' | 'reject' | 'extend' | 'begin'

export interface Settlement {
  readonly what: SettlementKind
  readonly receipt: string
  /** The end of its visibility, as far as this process knows, server time. */
  readonly until: number
  /** By kind: '1' if it has a ttl; delay in ms; due moment (twice); reason; visibility in ms (twice). */
  readonly detail: string
}

/** A message taken from the queue. */
export interface Taken {
  readonly receipt: string
  /** True if its attempt does not count before `begin`. */
  readonly notBegun: boolean
  /**
   * By the queue's clock, which is `aheadMs` ahead of the server's: see `clock` in lua/waiting/queue/queues.lua.
   */
  readonly dueAt: number
  readonly aheadMs: number
  /** The end of its visibility: server time, and `performance.now()` time, which is not later. */
  readonly until: number
  readonly untilHere: number
  readonly record: string
}

export interface FetchReply {
  /**
   * For each settlement: 0 if the delivery is stale, else 1; for `extend` and `begin` the new end of its visibility; -1
   * for `begin` while the queue is paused.
   */
  readonly settled: readonly number[]
  readonly nowMs: number
  /** When to ask again, server time; Infinity if nothing waits. */
  readonly nextAt: number
  /** When the next visibility ends, server time; Infinity if none does, undefined if the call did not search. */
  readonly nextEndAt: number | undefined
  readonly taken: readonly Taken[]
  /** The number of messages that became dead letters because their last visibility ended. */
  readonly buried: number
  /** Of the queue after this call: 0 while it holds no messages, else a number that every change raises. */
  readonly version: number
}

/** The request of one call, which settles deliveries and takes due messages. */
export interface FetchRequest {
  /** In ms since the epoch; '' for the server's clock. */
  readonly clock: string
  /**
   * 'look': searches for ended visibilities, too. 'watch': as 'look', and this process continues to ask, so the script
   * need not wake another. 'sweep': the acknowledged messages may be the last ones.
   */
  readonly mode: 'look' | 'watch' | 'sweep' | ''
  /** Number of the fetch; 0 if the call only settles. */
  readonly number: number
  /** For how long dead letters are kept, ms; -1 for good. */
  readonly deadTtlMs: number
  readonly settlements: readonly Settlement[]
  /** The visibility in ms of each wanted message; negative if its attempt shall not count before `begin`. */
  readonly visibilities: readonly number[]
}

/** The ARGV of lua/waiting/queue/queue_settle_and_fetch.lua. */
export function fetchArguments(request: FetchRequest): string[] {
  const { clock, mode, number, deadTtlMs, settlements, visibilities } = request
  const args = [clock, mode, String(number), String(deadTtlMs), String(settlements.length)]
  for (const { what, receipt, until, detail } of settlements) args.push(what, receipt, String(until), detail)
  for (const visibilityMs of visibilities) args.push(String(visibilityMs))
  return args
}

/** Reads the reply of queue_settle_and_fetch.lua to a call sent at `askedAt`, by `performance.now()`. */
export function parseFetchReply(reply: unknown, mode: FetchRequest['mode'], askedAt: number): FetchReply {
  const [settled, nowMs, next, nextEnd, rows, buried = 0, aheadMs = 0, version = -1] = reply as [
    number[],
    number,
    number,
    number,
    Array<string | number>,
    number?,
    number?,
    number?,
  ]
  const taken: Taken[] = []
  for (let i = 0; i < rows.length; i += 4) {
    const signed = Number(rows[i + 2])
    const until = Math.abs(signed)
    taken.push({
      receipt: rows[i] as string,
      notBegun: signed < 0,
      dueAt: Number(rows[i + 1]),
      aheadMs,
      until,
      // The server reads its clock after the call was sent.
      untilHere: askedAt + until - nowMs,
      record: rows[i + 3] as string,
    })
  }
  const looked = mode === 'look' || mode === 'watch'
  return {
    settled,
    nowMs,
    nextAt: momentOf(next),
    nextEndAt: looked ? momentOf(nextEnd) : undefined,
    taken,
    buried,
    version,
  }
}

/** Puts a message back that no receiver in this process takes, as if it had never been delivered. */
export function returnOf({ receipt, notBegun, until, dueAt }: Taken): Settlement {
  return { what: notBegun ? 'return_not_begun' : 'return', receipt, until, detail: String(dueAt) }
}

function momentOf(ms: number): number {
  return ms < 0 ? Number.POSITIVE_INFINITY : ms
}

/**
 * Interval of the search for deliveries of processes that died. Whenever its block ends, just as often, an idle process
 * looks if the queue has changed.
 */
const LOOK_MS = 2000
/** It looks after this time in any case: that also keeps the last moment of the queue's clock. */
const LOOK_ANYWAY_MS = 30_000
/** The interval if the client provides no connection for wake-ups. */
const UNWAKEABLE_MS = 1000
/** The process that is woken second asks after this time, to take what the first has left. */
const SECOND_MS = 100
/** A process that always finds others faster asks this much later, at first and at most. */
const STEP_BACK_MS = 4
const LONGEST_STEP_BACK_MS = 16
/** A message that is due within this time is fetched by the call that settles. */
const SHARE_MS = 3

const NEVER = Number.POSITIVE_INFINITY

/** Decides when this process asks the queue next. Moments are by `performance.now()`. */
export class FetchSchedule {
  readonly #serverClock = new ServerClockBelow()
  /** When the next message is due. */
  #nextAt = NEVER
  /** When the next visibility of any delivery, in any process, ends. */
  #nextEndAt = NEVER
  /** When to ask after this process was woken second. */
  #secondAt = NEVER
  #lookedAt = Number.NEGATIVE_INFINITY
  /** The version of the queue of which all is known: see `FetchReply`; undefined: of none. */
  #version: number | undefined
  #stepBackMs = 0
  /** The timer for the next message rang, and no fetch was answered since. */
  #rang = false

  /** When to ask next. `able`: this process can be woken. */
  at(able: boolean): number {
    const safetyAt = able ? NEVER : performance.now() + UNWAKEABLE_MS
    return Math.min(this.#nextAt + this.#stepBackMs, this.#nextEndAt, this.#secondAt, safetyAt)
  }

  /** False if no message is known to become due. */
  get knowsNext(): boolean {
    return this.#nextAt < NEVER
  }

  /** True if the next message is due so shortly that a settlement can wait for its fetch. */
  get dueWithShare(): boolean {
    return this.#nextAt + this.#stepBackMs - performance.now() < SHARE_MS
  }

  /**
   * A message becomes due in `delayMs`, and no other process is woken for it. True if that is earlier than the next
   * known one.
   */
  expect(delayMs: number): boolean {
    const at = performance.now() + delayMs
    if (at >= this.#nextAt) return false
    this.#nextAt = at
    return true
  }

  /** This process was woken second. */
  askAsSecond(): void {
    this.#secondAt = Math.min(this.#secondAt, performance.now() + SECOND_MS)
  }

  /** Other processes watch for the next due messages. */
  handOver(): void {
    this.#nextAt = NEVER
    this.#version = undefined
  }

  /** Whether the last look has seen this version of the queue. */
  hasSeen(version: number): boolean {
    return version === this.#version
  }

  /** Whether an idle process must look, although the queue may not have changed. */
  get looksAnyway(): boolean {
    return this.#version === undefined || performance.now() - this.#lookedAt >= LOOK_ANYWAY_MS
  }

  /**
   * The timer rings. `due`: for the next message; `ended`: it is time to search for ended visibilities, too; `unknown`:
   * only because no wake-up can come. Each event rings once.
   */
  ring(): 'unknown' | 'due' | 'ended' {
    const now = performance.now()
    const [due, ended, second] = [now >= this.#nextAt, now >= this.#nextEndAt, now >= this.#secondAt]
    if (due) {
      this.#rang = true
      this.#nextAt = NEVER
    }
    if (ended) this.#nextEndAt = NEVER
    if (second) this.#secondAt = NEVER
    if (ended || second) return 'ended'
    return due ? 'due' : 'unknown'
  }

  /** True if ended visibilities must be searched again. */
  overdueLook(askedAt: number): boolean {
    return askedAt >= this.#nextEndAt || askedAt - this.#lookedAt >= LOOK_MS
  }

  /** This process asks, and searches for everything that it may have been woken for. */
  looks(): void {
    this.#secondAt = NEVER
  }

  /** The answer to a fetch sent at `askedAt`. */
  learn({ nowMs, nextAt, nextEndAt, taken, version }: FetchReply, askedAt: number): void {
    const now = performance.now()
    const rang = this.#rang
    this.#rang = false
    this.#serverClock.learn(nowMs)
    // A moment in the future of the server's clock cannot be past by ours, unless the server's clock was set back.
    if (nextAt > nowMs && (this.#serverClock.momentOf(nextAt) as number) <= askedAt) {
      this.#serverClock.forget()
      this.#serverClock.learn(nowMs)
    }
    const here = (at: number) => (at === NEVER ? at : (this.#serverClock.momentOf(at) ?? now))
    this.#nextAt = here(nextAt)
    if (nextEndAt !== undefined) {
      this.#nextEndAt = here(nextEndAt)
      this.#lookedAt = askedAt
      this.#version = version
    }
    for (const { untilHere } of taken) this.#nextEndAt = Math.min(this.#nextEndAt, untilHere)
    if (taken.length === 0) {
      if (rang) this.#stepBackMs = Math.min(LONGEST_STEP_BACK_MS, this.#stepBackMs * 2 || STEP_BACK_MS)
    } else if (taken.some(({ dueAt }) => nowMs - dueAt >= this.#stepBackMs)) {
      // No other process took it in time.
      this.#stepBackMs = 0
    }
  }
}
