import { shown } from '../../limiter/core/errors.js'

/** The server's answer to an ask: see lua/waiting/line/asks.lua. */
export interface LineAnswer {
  /**
   * 1: the ask was carried out; 0: the member is unknown and must be opened anew. Below 0: a code of the user's script,
   * and nothing was done.
   */
  readonly code: number
  readonly stamp: string
  /** The time of its grants, by the server's clock, ms. */
  readonly grantedAt: number
  /** How long ago the server first gave this answer. */
  readonly ageMs: number
  readonly nextMs: number
  /** How many of the member's waiters are in the line. */
  readonly waiting: number
  /** The ticket of the first waiter that joined without one. */
  readonly ticket: number
  /** A waiter that wants more units can never be granted. */
  readonly capacity: number
  /** A grant older than this is late; −1: the user decides. */
  readonly lateMs: number
  readonly granted: readonly Granted[]
  readonly refused: readonly Refused[]
  /** The results of the user's own changes, in their order. */
  readonly changes: readonly number[]
}

interface Granted {
  readonly number: number
  /** Facts about the grant from the user's script. */
  readonly facts: readonly string[]
}

interface Refused {
  readonly number: number
  /** How long the waiter would wait, ms; below 0: for ever. */
  readonly waitMs: number
}

/**
 * Reads a reply in which each grant has `width` facts: see `answer` in lua/waiting/line/asks.lua. Throws
 * `TypeError` for anything else. Every hand-over waits for this, often with cold processor caches, where plain loops
 * take half as long as `map`.
 */
export function lineAnswer(reply: unknown, width: number): LineAnswer {
  const parts = String(reply).split(',')
  const words = parts[0].split(' ')
  const answer = {
    code: words[0] === '' ? Number.NaN : Number(words[0]),
    stamp: words[1],
    grantedAt: Number(words[2]),
    ageMs: Number(words[3]),
    nextMs: Number(words[4]),
    waiting: Number(words[5]),
    ticket: Number(words[6]),
    capacity: Number(words[7]),
    lateMs: Number(words[8]),
    granted: [] as Granted[],
    refused: [] as Refused[],
    changes: [] as number[],
  }
  if (answer.code < 1) return answer
  const { grantedAt, ageMs, nextMs, waiting, ticket, capacity, lateMs } = answer
  const sum = answer.code + grantedAt + ageMs + nextMs + waiting + ticket + capacity + lateMs
  if (Number.isNaN(sum) || words.length !== 9 || parts.length !== 4) {
    throw new TypeError(`Redis answered ${shown(reply)}, expected what a waiting line answers`)
  }
  const granted = wordsOf(parts[1])
  for (let i = 0; i < granted.length; i += width + 1) {
    answer.granted.push({ number: Number(granted[i]), facts: granted.slice(i + 1, i + 1 + width) })
  }
  const refused = wordsOf(parts[2])
  for (let i = 0; i < refused.length; i += 2) {
    answer.refused.push({ number: Number(refused[i]), waitMs: Number(refused[i + 1]) })
  }
  for (const number of wordsOf(parts[3])) answer.changes.push(Number(number))
  return answer
}

function wordsOf(list: string): string[] {
  return list === '' ? [] : list.split(' ')
}
