import { shown } from '../core/errors.js'

/** The server's answer to an ask: see line_ask.lua. */
export interface LineAnswer {
  /** 1: the ask was carried out; 0: the member is unknown and must be opened anew. Below 0: a code of the user's script, and nothing was done. */
  readonly word: number
  readonly stamp: string
  /** The time of its grants, by the server's clock, ms. */
  readonly at: number
  /** How long ago the server first gave this answer. */
  readonly ageMs: number
  readonly nextMs: number
  /** How many of the member's waiters are in the line. */
  readonly waiting: number
  /** The ticket of the first waiter that joined without one. */
  readonly ticket: number
  /** Capacity: a waiter that wants more can never be granted. */
  readonly most: number
  /** A grant older than this is late; −1: the user decides. */
  readonly lateMs: number
  /** How long the server remembers the member without an ask. */
  readonly lifeMs: number
  readonly granted: readonly Granted[]
  readonly refused: readonly Refused[]
  /** The results of the user's own changes, in their order. */
  readonly changes: readonly number[]
}

interface Granted {
  readonly number: number
  /** What the user's script tells of it. */
  readonly facts: readonly string[]
}

interface Refused {
  readonly number: number
  /** How long the waiter would wait, ms; below 0: for ever. */
  readonly waitMs: number
}

/** Reads a reply in which each grant has `width` facts: see line_answer.lua. Throws `TypeError` for anything else. */
export function lineAnswer(reply: unknown, width: number): LineAnswer {
  const [head, ...lists] = String(reply).split(',')
  const words = head.split(' ')
  const [word, , at, ageMs, nextMs, waiting, ticket, most, lateMs, lifeMs] = words.map(Number)
  const isWhole =
    lists.length === 3 &&
    words.length === 10 &&
    !Number.isNaN(at + ageMs + nextMs + waiting + ticket + most + lateMs + lifeMs)
  if (head === '' || !(word < 1 || (word >= 1 && isWhole))) {
    throw new TypeError(`Redis answered ${shown(reply)}, expected what a waiting line answers`)
  }
  const [granted, refused, changes] = isWhole ? lists.map(wordsOf) : [[], [], []]
  return {
    word,
    stamp: words[1],
    at,
    ageMs,
    nextMs,
    waiting,
    ticket,
    most,
    lateMs,
    lifeMs,
    granted: groups(granted, width + 1, (number, i) => ({ number, facts: granted.slice(i + 1, i + 1 + width) })),
    refused: groups(refused, 2, (number, i) => ({ number, waitMs: Number(refused[i + 1]) })),
    changes: changes.map(Number),
  }
}

function wordsOf(list: string): string[] {
  return list === '' ? [] : list.split(' ')
}

/** What `read` makes of the first number of each group and its place in the list. */
function groups<T>(list: readonly string[], size: number, read: (first: number, i: number) => T): T[] {
  const all: T[] = []
  for (let i = 0; i + size <= list.length; i += size) all.push(read(Number(list[i]), i))
  return all
}
