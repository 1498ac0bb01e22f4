import * as theirs from 'rate-limiter-flexible'
import * as ours from '../../../src/replacing/rate-limiter-flexible/index.js'
import { type Random, randomFrom } from '../../support/random.js'

export type Module = typeof ours
/** Theirs first: what it answers is expected. */
export const MODULES: readonly Module[] = [theirs as unknown as Module, ours]

type Limiter = Pick<
  ours.RateLimiterAbstract,
  'points' | 'duration' | 'consume' | 'penalty' | 'reward' | 'get' | 'set' | 'block' | 'delete'
> & { readonly blockOnConsumed?: number }

/** What came of a call. */
export type Outcome = readonly [kind: 'resolved' | 'refused' | 'failed', value: unknown]

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

const KEYS = ['a', 'b', 7] as const

export interface Call {
  readonly method: 'consume' | 'penalty' | 'reward' | 'get' | 'set' | 'block' | 'delete'
  readonly args: readonly unknown[]
}

/** A random call of a limiter. `custom`: the customDuration of all calls of the sequence, if any. */
export function randomCall(random: Random, seconds: readonly number[], custom?: number): Call {
  const key = random.pick(KEYS)
  const points = random.integer(1, 3)
  const method = random.pick([
    ...(['consume', 'consume', 'consume', 'consume', 'penalty', 'reward'] as const),
    ...(['get', 'get', 'set', 'block', 'delete'] as const),
  ])
  const options = custom === undefined ? [] : [{ customDuration: custom }]
  if (method === 'consume' || method === 'penalty' || method === 'reward') {
    return { method, args: random.integer(0, 2) === 0 && options.length === 0 ? [key] : [key, points, ...options] }
  }
  if (method === 'set') return { method, args: [key, random.integer(0, 6), random.pick(seconds)] }
  if (method === 'block') return { method, args: [key, random.pick(seconds)] }
  return { method, args: [key] }
}

/** The random numbers of one sequence of calls, the same each time. */
export function sequence(number: number): Random {
  return randomFrom(`sequence ${number}`)
}

/** What is known to differ; docs/from-rate-limiter-flexible.md lists the same. */
const KNOWN = {
  /** On Redis a count does not fall below 0: who rewards more than was consumed banks nothing. */
  below0: 'below 0 on Redis',
  /** What is set up to the limiter's points lasts for its duration, whatever seconds are given; 0 points are no key. */
  set: 'set',
  /** A reward does not end a block. */
  reward: 'reward of a blocked key',
  /** A block without end lasts: theirs on Redis ends with the duration that the next call gives it. */
  forever: 'a block without end on Redis',
} as const

interface Played {
  readonly story: readonly unknown[]
  /** How many answers were compared. */
  readonly compared: number
  readonly differences: ReadonlySet<string>
}

/**
 * Plays the same calls with theirs and with ours, one after the other, and compares what they answer. Where a known
 * difference begins, the key is left out until both have deleted it. Of a blocked key the consumed points are not
 * compared: refused calls count there in theirs.
 */
export class Comparison {
  readonly #left = new Map<string, string>()
  readonly #blocked = new Set<string>()
  readonly #story: unknown[] = []
  readonly #differences = new Set<string>()
  #compared = 0

  constructor(
    readonly theirs: Limiter,
    readonly ours: Limiter,
    /**
     * On Redis times are compared in units, and isFirstInDuration is: theirs in memory tells whether the record was
     * new.
     */
    readonly unitMs = 1,
    /** Refused calls that are counted may bring theirs to where the process remembers the refusal, and for how long. */
    readonly remembersRefusals = false,
  ) {}

  async call({ method, args }: Call): Promise<void> {
    const key = String(args[0])
    const outcomes = []
    for (const limiter of [this.theirs, this.ours]) {
      const act = limiter[method] as (...args: readonly unknown[]) => Promise<unknown>
      outcomes.push(await outcomeOf(() => act.apply(limiter, args as unknown[]), this.unitMs))
    }
    const [expected, seen] = outcomes
    if (method === 'delete') {
      const wasLeft = this.#left.delete(key)
      this.#blocked.delete(key)
      if (!wasLeft) this.#compare(method, args, expected, seen, false)
      return
    }
    const difference = this.#differenceOf(method, key, args, expected)
    if (difference !== undefined) {
      this.#left.set(key, difference)
      this.#differences.add(difference)
    }
    if (this.#left.has(key)) return
    // A block that has ended leaves a fresh key: its count is small again, and compared.
    const wasBlocked = this.#blocked.has(key)
    if (wasBlocked && !this.#isOver(expected)) this.#blocked.delete(key)
    if (this.#blocks(method, args) || (method === 'consume' && expected[0] === 'refused')) this.#blocked.add(key)
    this.#compare(method, args, expected, seen, wasBlocked && this.#isOver(expected))
  }

  end(): Played {
    return { story: this.#story, compared: this.#compared, differences: this.#differences }
  }

  /** Without asking the store theirs refuses with 0 consumed points. */
  #isOver([kind, value]: Outcome): boolean {
    return kind === 'refused' || (Array.isArray(value) && value[2] > this.theirs.points)
  }

  #blocks(method: string, [, points]: readonly unknown[]): boolean {
    const { points: most, blockOnConsumed = 0 } = this.theirs
    return method === 'block' || (method === 'set' && Number(points) > most && Number(points) >= blockOnConsumed)
  }

  #differenceOf(method: string, key: string, args: readonly unknown[], [, value]: Outcome): string | undefined {
    if (this.unitMs > 1 && Array.isArray(value) && value[2] < 0) return KNOWN.below0
    if (method === 'reward' && this.#blocked.has(key)) return KNOWN.reward
    const blocks = this.#blocks(method, args)
    if (this.unitMs > 1 && blocks && args.at(-1) === 0 && this.theirs.duration > 0) return KNOWN.forever
    if (method !== 'set' || blocks) return undefined
    return args[1] === 0 || args[2] !== this.theirs.duration ? KNOWN.set : undefined
  }

  #compare(method: string, args: readonly unknown[], theirs: Outcome, ours: Outcome, isBlocked: boolean): void {
    this.#compared++
    const [expected, seen] = [theirs, ours].map(([kind, value]) => {
      if (!Array.isArray(value)) return [kind, value]
      const [remaining, ms, consumed, first] = value
      const isRemembered = isBlocked && this.remembersRefusals && kind === 'refused'
      const counted = isBlocked ? 'more' : consumed
      return [kind, remaining, isRemembered ? 'remembered' : ms, counted, this.unitMs > 1 && !isBlocked ? first : '']
    })
    this.#story.push([method, args, seen])
    if (JSON.stringify(expected) === JSON.stringify(seen)) return
    throw new Error(
      `${method}(${args.map(arg => JSON.stringify(arg)).join(', ')}): theirs ${JSON.stringify(expected)}, ` +
        `ours ${JSON.stringify(seen)}\nafter ${JSON.stringify(this.#story, null, 1)}`,
    )
  }
}
