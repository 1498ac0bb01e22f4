/**
 * The ways to settle a delivery; `return` puts the message back as if it had never been taken, `unbegun` one whose attempt does not count yet. `begin`:
 * the attempt counts from now on, and the visibility starts again.
 */
export type SettlementKind = 'ack' | 'nack' | 'return' | 'unbegun' | 'reject' | 'extend' | 'begin'

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
  readonly unbegun: boolean
  /** By the queue's clock, which is `aheadMs` ahead of the server's: see queue_clock in lua/lib/queue.lua. */
  readonly dueAt: number
  readonly aheadMs: number
  /** The end of its visibility: server time, and `performance.now()` time, which is not later. */
  readonly until: number
  readonly untilHere: number
  readonly record: string
}

export interface FetchReply {
  /** For each settlement: 0 if the delivery is stale, else 1; for `extend` and `begin` the new end of its visibility; -1 for `begin` while the queue is paused. */
  readonly settled: readonly number[]
  readonly nowMs: number
  /** When to ask again, server time; Infinity if nothing waits. */
  readonly nextAt: number
  /** When the next visibility ends, server time; Infinity if none does, undefined if the call did not search. */
  readonly nextEndAt: number | undefined
  readonly taken: readonly Taken[]
  /** True if the script woke other processes. */
  readonly woken: boolean
  /** The number of messages that became dead letters because their last visibility ended. */
  readonly buried: number
}

/** The request of one call, which settles deliveries and takes due messages. */
export interface FetchRequest {
  /** In ms since the epoch; '' for the server's clock. */
  readonly clock: string
  /**
   * 'look': searches for ended visibilities, too. 'watch': as 'look', and this process continues to ask, so the script need not wake another.
   * 'sweep': the acknowledged messages may be the last ones.
   */
  readonly mode: 'look' | 'watch' | 'sweep' | ''
  /** Number of the fetch; 0 if the call only settles. */
  readonly number: number
  readonly settlements: readonly Settlement[]
  /** The visibility in ms of each wanted message; negative if its attempt shall not count before `begin`. */
  readonly visibilities: readonly number[]
}

/** The ARGV of queue_settle_and_fetch.lua. */
export function fetchArguments({ clock, mode, number, settlements, visibilities }: FetchRequest): string[] {
  const args = [clock, mode, String(number), String(settlements.length)]
  for (const { what, receipt, until, detail } of settlements) args.push(what, receipt, String(until), detail)
  for (const visibilityMs of visibilities) args.push(String(visibilityMs))
  return args
}

/** Reads the reply of queue_settle_and_fetch.lua to a call sent at `askedAt`, by `performance.now()`. */
export function parseFetchReply(reply: unknown, mode: FetchRequest['mode'], askedAt: number): FetchReply {
  const [settled, nowMs, next, nextEnd, rows, woken, buried = 0, aheadMs = 0] = reply as [
    number[],
    number,
    number,
    number,
    Array<string | number>,
    number,
    number?,
    number?,
  ]
  const taken: Taken[] = []
  for (let i = 0; i < rows.length; i += 4) {
    const signed = Number(rows[i + 2])
    const until = Math.abs(signed)
    taken.push({
      receipt: rows[i] as string,
      unbegun: signed < 0,
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
    woken: woken === 1,
    buried,
  }
}

/** Puts a message back that no receiver in this process takes, as if it had never been delivered. */
export function returnOf({ receipt, unbegun, until, dueAt }: Taken): Settlement {
  return { what: unbegun ? 'unbegun' : 'return', receipt, until, detail: String(dueAt) }
}

function momentOf(ms: number): number {
  return ms < 0 ? Number.POSITIVE_INFINITY : ms
}
