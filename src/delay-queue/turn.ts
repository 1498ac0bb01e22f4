/** What is done to a delivery; `return` puts it back as if it had never been taken. */
export type SettlementKind = 'ack' | 'nack' | 'return' | 'reject' | 'extend'

export interface Settlement {
  readonly what: SettlementKind
  readonly receipt: string
  /** The end of its visibility as far as we know, server time. */
  readonly until: number
  /** By kind: '1' if it has a ttl; delay in ms; due moment; reason; visibility in ms. */
  readonly detail: string
}

/** A message taken from the queue. */
export interface Taken {
  readonly receipt: string
  readonly dueAt: number
  /** The end of its visibility: server time, and no later by `performance.now()`. */
  readonly until: number
  readonly untilHere: number
  readonly record: string
}

export interface TurnReply {
  /** For each settlement 0 if the delivery is stale, else 1, or for `extend` the new end of its visibility. */
  readonly settled: readonly number[]
  readonly nowMs: number
  /** When to ask again, server time; Infinity if nothing waits. */
  readonly nextAt: number
  /** When the next visibility ends; Infinity if none does, undefined if it was not asked. */
  readonly nextEndAt: number | undefined
  readonly taken: readonly Taken[]
}

/** ARGV of queue_turn.lua. */
export function turnArguments(
  clock: string,
  mode: 'look' | 'sweep' | '',
  settlements: readonly Settlement[],
  visibilities: readonly number[],
): string[] {
  const args = [clock, mode, String(settlements.length)]
  for (const { what, receipt, until, detail } of settlements) args.push(what, receipt, String(until), detail)
  for (const visibilityMs of visibilities) args.push(String(visibilityMs))
  return args
}

/** What queue_turn.lua replied to a question asked at `askedAt` of `performance.now()`. */
export function parseTurn(reply: unknown, look: boolean, askedAt: number): TurnReply {
  const [settled, nowMs, next, nextEnd, rows] = reply as [number[], number, number, number, Array<string | number>]
  const taken: Taken[] = []
  for (let i = 0; i < rows.length; i += 4) {
    const until = Number(rows[i + 2])
    // The server read its clock after we asked.
    const untilHere = askedAt + until - nowMs
    taken.push({
      receipt: rows[i] as string,
      dueAt: Number(rows[i + 1]),
      until,
      untilHere,
      record: rows[i + 3] as string,
    })
  }
  const nextEndAt = look ? momentOf(nextEnd) : undefined
  return { settled, nowMs, nextAt: momentOf(next), nextEndAt, taken }
}

/** What gives back everything that was taken by an answer for which nobody waits any more. */
export function returnsOf(reply: unknown, askedAt: number): Settlement[] {
  const { taken } = parseTurn(reply, false, askedAt)
  return taken.map(({ receipt, until, dueAt }) => ({ what: 'return', receipt, until, detail: String(dueAt) }))
}

function momentOf(ms: number): number {
  return ms < 0 ? Number.POSITIVE_INFINITY : ms
}
