// A service in simulated time: `slots` requests are worked on at once, each for `workMs`; the rest wait inside it,
// first come, first served.
import { MeasuredPermits } from '../../src/operating/adaptive/adaptive-permits.js'

export interface Scenario {
  readonly seconds: number
  /** Requests per second at a moment. */
  readonly offered: (seconds: number) => number
  /** How many are worked on at once at a moment. */
  readonly slots: (seconds: number) => number
  readonly workMs: number
  /** One request takes `workMs` times what this makes of a random number. Default: a tenth more or less. */
  readonly spread?: (random: () => number) => number
}

/** The events of one second. */
export interface Second {
  readonly done: number
  readonly refused: number
  /** Of the requests that ended in this second, ms; 0 if none did. */
  readonly p50: number
  readonly p99: number
  /** The limit at its end. */
  readonly limit: number
}

const BOUNDS = { min: 5, max: 1000, initial: 20 }

/** Permits that adapt, by the clock of the simulation. */
export function adaptive(): (now: () => number) => Permits {
  return now => new MeasuredPermits(BOUNDS, now)
}

/** Nine requests of ten take half of the mean, the tenth takes more than five times as long. */
export const MIXED = (random: () => number): number => (random() < 0.9 ? 0.5 : 5.5)

/** A fixed limit. Infinity: none. */
export function fixed(limit: number): (now: () => number) => Permits {
  return () => {
    const permits = {
      limit,
      inUse: 0,
      enter: () => {
        permits.inUse++
        return () => {
          permits.inUse--
        }
      },
    }
    return permits
  }
}

export interface Permits {
  readonly limit: number
  readonly inUse: number
  enter(): (counts: boolean) => void
}

/** xorshift32: the same requests come in every run. */
function seeded(seed: number) {
  let state = seed
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return ((state >>> 0) + 1) / 0x1_0000_0001
  }
}

interface Inside {
  readonly enteredAt: number
  readonly leave: (counts: boolean) => void
}

/** Plays a scenario: requests come at random (Poisson). */
export function play(scenario: Scenario, permitsOf: (now: () => number) => Permits, seed = 1): Second[] {
  const random = seeded(seed)
  const { spread = () => 0.9 + 0.2 * random() } = scenario
  let now = 0
  const permits = permitsOf(() => now)
  const seconds: Second[] = []
  const waiting: Inside[] = []
  let head = 0
  const working: { endsAt: number; request: Inside }[] = []
  /** The slot of the request that ends first; most events are refusals, which do not change it. */
  let first = -1
  let times: number[] = []
  let refused = 0
  const start = () => {
    while (head < waiting.length && working.length < scenario.slots(now / 1000)) {
      const workMs = scenario.workMs * spread(random)
      const last = working.push({ endsAt: now + workMs, request: waiting[head++] }) - 1
      if (first < 0 || working[last].endsAt < working[first].endsAt) first = last
    }
    if (head > 10_000) {
      waiting.splice(0, head)
      head = 0
    }
  }
  let arrivesAt = 0
  while (seconds.length < scenario.seconds) {
    const endsAt = first < 0 ? Number.POSITIVE_INFINITY : working[first].endsAt
    const secondAt = (seconds.length + 1) * 1000
    now = Math.min(arrivesAt, endsAt, secondAt)
    if (now === secondAt) {
      times.sort((a, b) => a - b)
      const at = (share: number) => times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0
      seconds.push({ done: times.length, refused, p50: at(0.5), p99: at(0.99), limit: permits.limit })
      times = []
      refused = 0
    } else if (now === endsAt) {
      const [{ request }] = working.splice(first, 1)
      first = -1
      for (let i = 0; i < working.length; i++) if (first < 0 || working[i].endsAt < working[first].endsAt) first = i
      times.push(now - request.enteredAt)
      request.leave(true)
      start()
    } else {
      if (permits.inUse < permits.limit) {
        waiting.push({ enteredAt: now, leave: permits.enter() })
        start()
      } else refused++
      arrivesAt = now - (Math.log(random()) * 1000) / scenario.offered(now / 1000)
    }
  }
  return seconds
}

/** Throughput and times of some seconds together. */
export function summary(seconds: readonly Second[]) {
  const done = seconds.reduce((sum, { done }) => sum + done, 0)
  const limits = seconds.map(({ limit }) => limit)
  const mean = limits.reduce((sum, limit) => sum + limit, 0) / limits.length
  return {
    perSecond: done / seconds.length,
    p99: Math.max(...seconds.map(({ p99 }) => p99)),
    meanLimit: mean,
    /** The largest distance of the limit from its mean. */
    swing: Math.max(...limits.map(limit => Math.abs(limit - mean))),
  }
}
