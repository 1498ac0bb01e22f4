import type { Decision } from '../../../limiter/core/decision.js'
import { TopKeys } from '../top-keys.js'

/** `over` is divided into at most this many parts. */
const MOST_PARTS = 60
const SHORTEST_PART_MS = 1000

/** What a part of a window adds up to. */
interface WindowPart {
  clear(): void
}

/**
 * At least the last `overMs`, in parts: memory does not depend on the number of events. The oldest part expires as a
 * whole, once all of it is older than `overMs`, so up to one part more counts. Moments must not go back.
 */
class TimeWindow<Part extends WindowPart> {
  readonly #parts: Part[]
  readonly #partMs: number
  #newest = Number.NEGATIVE_INFINITY

  constructor(overMs: number, make: () => Part, mostParts = MOST_PARTS) {
    this.#partMs = Math.max(SHORTEST_PART_MS, overMs / mostParts)
    this.#parts = Array.from({ length: Math.ceil(overMs / this.#partMs) + 1 }, make)
  }

  /** The part of a moment; what is too old has been cleared. */
  at(now: number): Part {
    const tick = Math.floor(now / this.#partMs)
    const count = this.#parts.length
    if (tick > this.#newest) {
      for (let passed = Math.min(count, tick - this.#newest); passed > 0; passed--) {
        this.#parts[modulo(tick - passed + 1, count)].clear()
      }
      this.#newest = tick
    }
    return this.#parts[modulo(tick, count)]
  }

  /** All parts that count at this moment. */
  all(now: number): readonly Part[] {
    this.at(now)
    return this.#parts
  }
}

/** Of clocks that show moments before 1970, too. */
function modulo(a: number, b: number): number {
  return ((a % b) + b) % b
}

/**
 * Of the keys of a window so many parts are kept apart, with so many keys each: shares are short by less than 1 / 128
 * of the whole.
 */
const KEY_PARTS = 6
const KEYS = 128

/** The measured value of a rule. */
export type AlertCondition =
  | 'denied-share'
  | 'degraded-share'
  | 'breaker-open'
  | 'one-key-share'
  | 'near-limit-share'
  | 'queue-lateness'
  | 'dead-letters'
  | 'consumer-failed'

/** The numbers of a rule that its measure needs. */
export interface Bounds {
  readonly above: number
  readonly overMs: number
  readonly atLeast: number
}

/** What one rule measures of one subject. */
export interface Measure {
  decided?(decision: Decision, now: number): void
  /** A delivery was `value` ms late, or one message became a dead letter. */
  counted?(value: number, now: number): void
  /** The consumers of this queue cannot work. */
  failed?(queue: string, now: number): void
  /** The present value. A share of no decisions is 0. */
  value(now: number): Measured
}

/** `enough`: the value rests on enough events. */
interface Measured {
  readonly value: number
  readonly enough: boolean
}

function shareOf(hits: number, all: number, atLeast: number): Measured {
  return { value: all === 0 ? 0 : hits / all, enough: all > 0 && all >= atLeast }
}

class Tally implements WindowPart {
  all = 0
  hits = 0

  clear(): void {
    this.all = this.hits = 0
  }
}

class Share implements Measure {
  readonly #window: TimeWindow<Tally>
  readonly #atLeast: number

  constructor(
    { overMs, atLeast }: Bounds,
    readonly counts: (decision: Decision) => boolean,
  ) {
    this.#window = new TimeWindow(overMs, () => new Tally())
    this.#atLeast = atLeast
  }

  decided(decision: Decision, now: number): void {
    const tally = this.#window.at(now)
    tally.all++
    if (this.counts(decision)) tally.hits++
  }

  value(now: number): Measured {
    let all = 0
    let hits = 0
    for (const tally of this.#window.all(now)) {
      all += tally.all
      hits += tally.hits
    }
    return shareOf(hits, all, this.#atLeast)
  }
}

class OneKeyShare implements Measure {
  readonly #window: TimeWindow<TopKeys>
  readonly #atLeast: number
  readonly #above: number

  constructor({ overMs, atLeast, above }: Bounds) {
    const options = { size: KEYS, halfLifeMs: Number.POSITIVE_INFINITY, clock: { now: () => 0 } }
    this.#window = new TimeWindow(overMs, () => new TopKeys(options), KEY_PARTS)
    this.#atLeast = atLeast
    this.#above = above
  }

  decided({ key }: Decision, now: number): void {
    this.#window.at(now).add(key)
  }

  value(now: number): Measured {
    const parts = this.#window.all(now)
    let total = 0
    let most = 0
    for (const part of parts) {
      total += part.total
      most += part.top(1)[0]?.count ?? 0
    }
    // No key has more than the sum of the first of each part: usually that suffices.
    if (most <= 0.8 * this.#above * total) return shareOf(most, total, this.#atLeast)
    const counts = new Map<string, number>()
    let largest = 0
    for (const part of parts) {
      for (const { key, count, error } of part.top(KEYS)) {
        const sum = (counts.get(key) ?? 0) + count - error
        counts.set(key, sum)
        if (sum > largest) largest = sum
      }
    }
    return shareOf(largest, total, this.#atLeast)
  }
}

class NumberPart implements WindowPart {
  value = 0

  clear(): void {
    this.value = 0
  }
}

class Numbers implements Measure {
  readonly #window: TimeWindow<NumberPart>

  constructor(
    { overMs }: Bounds,
    readonly combine: (a: number, b: number) => number,
  ) {
    this.#window = new TimeWindow(overMs, () => new NumberPart())
  }

  counted(value: number, now: number): void {
    const part = this.#window.at(now)
    part.value = this.combine(part.value, value)
  }

  value(now: number): Measured {
    const value = this.#window.all(now).reduce((sum, part) => this.combine(sum, part.value), 0)
    return { value, enough: true }
  }
}

/** A number that goes up and down. */
class Level implements Measure {
  #level = 0

  counted(change: number): void {
    this.#level += change
  }

  value(): Measured {
    return { value: this.#level, enough: true }
  }
}

/** Consumers that cannot work tell so once a minute: a queue counts for a few seconds more than that. */
const FAILED_FOR_MS = 65_000

/** How many queues have failed lately. */
class FailedQueues implements Measure {
  readonly #failedAt = new Map<string, number>()

  failed(queue: string, now: number): void {
    this.#failedAt.set(queue, now)
  }

  value(now: number): Measured {
    for (const [queue, at] of this.#failedAt) if (now - at > FAILED_FOR_MS) this.#failedAt.delete(queue)
    return { value: this.#failedAt.size, enough: true }
  }
}

type Unit = 'share' | 'ms' | 'count'

/** What a rule can be about. */
interface Condition {
  /** Whose events are measured; breakers belong to stores. `queues`: all together. */
  readonly of: 'limiter' | 'queue' | 'queues' | 'store'
  readonly unit: Unit
  readonly measure: (rule: Bounds) => Measure
  /** A sentence without its full stop. `amount` is the value as text. */
  readonly words: (subject: string, amount: string, value: number) => string
}

/** Every condition. */
export const CONDITIONS: Readonly<Record<AlertCondition, Condition>> = {
  'denied-share': {
    of: 'limiter',
    unit: 'share',
    measure: rule => new Share(rule, ({ allowed }) => !allowed),
    words: (subject, amount) => `${subject} refuses ${amount} of its requests`,
  },
  'degraded-share': {
    of: 'limiter',
    unit: 'share',
    measure: rule => new Share(rule, ({ degraded }) => degraded),
    words: (subject, amount) => `${subject} decides ${amount} of its requests without Redis`,
  },
  'breaker-open': {
    of: 'store',
    unit: 'count',
    measure: () => new Level(),
    words: (_, amount, value) => `${amount} ${value === 1 ? 'breaker is' : 'breakers are'} open`,
  },
  'one-key-share': {
    of: 'limiter',
    unit: 'share',
    measure: rule => new OneKeyShare(rule),
    words: (subject, amount) => `${subject}: one key makes ${amount} of the requests`,
  },
  'near-limit-share': {
    of: 'limiter',
    unit: 'share',
    measure: rule => new Share(rule, ({ remaining, limit }) => remaining * 5 <= limit.quota),
    words: (subject, amount) => `${subject}: ${amount} of its requests are near the limit`,
  },
  'queue-lateness': {
    of: 'queue',
    unit: 'ms',
    measure: rule => new Numbers(rule, Math.max),
    words: (subject, amount) => `${subject} delivers ${amount} late`,
  },
  'dead-letters': {
    of: 'queue',
    unit: 'count',
    measure: rule => new Numbers(rule, (a, b) => a + b),
    words: (subject, amount, value) => `${subject} has ${amount} dead ${value === 1 ? 'letter' : 'letters'}`,
  },
  'consumer-failed': {
    of: 'queues',
    unit: 'count',
    measure: () => new FailedQueues(),
    words: (_, amount, value) => `the consumers of ${amount} ${value === 1 ? 'queue' : 'queues'} cannot work`,
  },
}

/** An alert in words, with its numbers as `written` writes them. */
export function describeAlert(
  when: AlertCondition,
  subject: string,
  value: number,
  written: Readonly<Record<Unit, (value: number) => string>>,
): string {
  const { words, unit } = CONDITIONS[when]
  return words(subject, written[unit](value), value)
}
