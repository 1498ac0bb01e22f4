import * as theirs from 'rate-limiter-flexible'
import * as ours from '../../../src/replacing/rate-limiter-flexible/index.js'
import { type Random, randomFrom } from '../../support/random.js'

export type Module = typeof ours
/** Theirs first: what it answers is expected. */
export const MODULES: readonly Module[] = [theirs as unknown as Module, ours]

/** What came of a call. */
export type Outcome = readonly [kind: 'resolved' | 'refused' | 'failed' | 'threw', value: unknown]

/** What is compared of an answer: all, or with its times in units, where a server's clock ran meanwhile. */
function plain(value: unknown, unitMs = 1): unknown {
  if (value instanceof Error) return value.constructor.name === 'RateLimiterQueueError' ? value.message : 'an error'
  if (typeof value !== 'object' || value === null) return value
  const { remainingPoints, msBeforeNext, consumedPoints, isFirstInDuration } = value as ours.RateLimiterRes
  if (typeof msBeforeNext !== 'number') {
    return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, plain(part, unitMs)]))
  }
  return [remainingPoints, Math.ceil(msBeforeNext / unitMs) * unitMs, consumedPoints, isFirstInDuration]
}

export async function outcomeOf(call: () => Promise<unknown>, unitMs?: number): Promise<Outcome> {
  try {
    return ['resolved', plain(await call(), unitMs)]
  } catch (error) {
    return [error instanceof Error ? 'failed' : 'refused', plain(error, unitMs)]
  }
}

const KEYS = ['a', 'b', 7]

/** A random call of a limiter, by its name and arguments. */
export function randomCall(
  random: Random,
  seconds: readonly number[],
): [method: keyof ours.RateLimiterAbstract, args: unknown[]] {
  const key = random.pick(KEYS)
  const points = random.integer(1, 3)
  const method = random.pick([
    'consume',
    'consume',
    'consume',
    'consume',
    'penalty',
    'reward',
    'get',
    'get',
    'set',
    'block',
    'delete',
  ] as const)
  const options = random.integer(0, 5) === 0 ? [{ customDuration: random.pick(seconds) }] : []
  if (method === 'consume' || method === 'penalty' || method === 'reward') {
    return [method, random.integer(0, 2) === 0 && options.length === 0 ? [key] : [key, points, ...options]]
  }
  if (method === 'set') return [method, [key, random.integer(-1, 6), random.pick(seconds)]]
  if (method === 'block') return [method, [key, random.pick(seconds)]]
  return [method, [key]]
}

/** The random numbers of one sequence of calls, the same each time. */
export function sequence(number: number): Random {
  return randomFrom(`sequence ${number}`)
}
