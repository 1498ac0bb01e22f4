import type { Retry } from '../../limiter/algorithms/algorithm.js'
import { algorithmOf } from '../../limiter/algorithms/registry.js'
import type { Decision, Verdict } from '../../limiter/core/decision.js'
import { StoreError } from '../../limiter/core/errors.js'
import { keySegment } from '../../limiter/core/key-segment.js'
import { countedSpan } from '../../limiter/core/limit.js'
import type { LimiterKey } from '../../limiter/key.js'
import type { RateLimiter } from '../../limiter/rate-limiter.js'
import { type Charge, DEFAULT_LIMITER } from '../../limiter/store.js'
import {
  bodyOf,
  newToken,
  type ScheduleReading,
  type ScheduleStore,
  type ScheduleWriting,
  tokenOf,
} from '../../waiting/queue/schedules.js'
import { after, type SyncOrAsync } from '../sync-or-async.js'
import { type Departure, earliestFit, LimitSchedule, type StoredSchedule, stateOf } from './limit-schedule.js'

interface Line {
  end: Promise<unknown>
  length: number
}

/** Tasks that share a name run one after another, in the order of their requests. */
class KeyedLock {
  readonly #lines = new Map<string, Line>()

  /** The most tasks that run or wait under one of these names. */
  waiting(names: readonly string[]): number {
    return Math.max(0, ...names.map(name => this.#lines.get(name)?.length ?? 0))
  }

  async hold<Result>(names: readonly string[], work: () => Promise<Result>): Promise<Result> {
    const before = names.map(name => this.#lines.get(name)?.end)
    const result = Promise.all(before).then(work)
    const end = result.catch(() => {})
    for (const name of names) {
      const line = this.#lines.get(name)
      if (line === undefined) this.#lines.set(name, { end, length: 1 })
      else {
        line.end = end
        line.length++
      }
    }
    try {
      return await result
    } finally {
      for (const name of names) {
        const line = this.#lines.get(name)
        if (line !== undefined && --line.length === 0) this.#lines.delete(name)
      }
    }
  }
}

/** The outcome of a request for deferral. */
export interface Reservation {
  /**
   * When the message is due, by the clock of the queue's callers; undefined if the key has too many waiting messages.
   */
  readonly dueAt: number | undefined
  /** In how many ms the request would be done; Infinity if never. */
  readonly waitMs: number
  /** Takes the reservation back, because its message was not queued. */
  release(): Promise<void>
}

/** The current schedules of one request's limits. */
interface Standing {
  readonly nowMs: number
  readonly schedules: readonly LimitSchedule[]
  /** Schedules that are known only from the store's count so far. */
  readonly derived: ReadonlySet<LimitSchedule>
}

/** After this many conflicts with other processes a request gives up. */
const MOST_TRIES = 50
/** The most requests of one key that wait in this process for its schedule; more are refused. */
const MOST_IN_LINE = 1000
/** Probes per sliding window: a finer picture of the store's log is not needed. */
const MOST_RETRIES = 200

/**
 * When deferred messages leave. While messages wait, new requests of the same key wait behind them, so that both
 * together keep the policy: a schedule counts both, from the first deferred message until its limit is as if never
 * used. (The store counts only new requests.)
 */
export class Departures {
  readonly #store: ScheduleStore
  readonly #maxPerKey: number
  readonly #lock = new KeyedLock()

  constructor(store: ScheduleStore, maxPerKey: number) {
    this.#store = store
    this.#maxPerKey = maxPerKey
  }

  /** Whether the schedules can be asked. */
  get available(): boolean {
    return this.#store.available
  }

  /**
   * For a request that the store has allowed and charged: the ms that it must wait (leaky bucket), or undefined if
   * deferred messages come first. Synchronous while nothing is deferred and the schedules are in this process.
   */
  admit(limiter: RateLimiter, key: LimiterKey, decision: Decision): SyncOrAsync<number | undefined> {
    const charges = limiter.chargesOf(key)
    const names = charges.map(nameOf)
    return after(this.#store.look(names), ({ texts, nowMs }) => {
      if (texts.every(text => text === '')) return 0
      // While messages wait, the queue for the lock may take longer than the deadline of a decision.
      if (somebodyWaits(charges, texts, nowMs)) return undefined
      return this.#lock.hold(names, () => this.#admit(limiter, key, decision, charges, names))
    })
  }

  /** A place behind all waiting messages of the key. Rejects with `StoreError` if the schedules cannot be kept. */
  async reserve(limiter: RateLimiter, key: LimiterKey, decision: Decision): Promise<Reservation> {
    const charges = limiter.chargesOf(key)
    const names = charges.map(nameOf)
    if (this.#lock.waiting(names) >= MOST_IN_LINE) return refused(decision.retryAfterMs)
    // Waits as long as an allowed request takes to get into line, so that this one does not overtake earlier requests.
    await this.#store.look(names)
    return this.#lock.hold(names, async () => {
      let reading: ScheduleReading = await this.#store.open(names)
      for (let tries = 0; tries < MOST_TRIES; tries++) {
        const standing = await this.#standing(limiter, key, decision, charges, reading)
        const { nowMs, schedules, derived } = standing
        const known = schedules.every(schedule => !derived.has(schedule))
        const storeMs = known && !decision.allowed ? decision.retryAfterMs : 0
        const { at, delayMs } = earliestFit(schedules, decision.cost, Math.max(nowMs + storeMs, lastOf(schedules)))
        const waitMs = at + delayMs - nowMs
        const full = schedules.some(schedule => schedule.waiting >= this.#maxPerKey)
        if (full || waitMs === Number.POSITIVE_INFINITY) return refused(waitMs)
        const departure = { at, dueAt: at + delayMs, cost: decision.cost }
        for (const schedule of schedules) schedule.add(departure)
        const writing = await this.#write(names, reading, standing)
        if (writing.written) {
          return {
            dueAt: departure.dueAt - (reading.aheadMs ?? 0),
            waitMs,
            release: () => this.#release(charges, names, departure),
          }
        }
        reading = writing
      }
      throw new StoreError('defer: other processes kept changing the schedule of this key')
    })
  }

  async #admit(
    limiter: RateLimiter,
    key: LimiterKey,
    decision: Decision,
    charges: readonly Charge[],
    names: readonly string[],
  ): Promise<number | undefined> {
    let reading: ScheduleReading = await this.#store.open(names)
    for (let tries = 0; tries < MOST_TRIES; tries++) {
      const standing = await this.#standing(limiter, key, decision, charges, reading)
      const { nowMs, schedules, derived } = standing
      if (lastOf(schedules) > nowMs) return undefined
      // The state derived from the store's count already includes this request.
      const others = schedules.filter(schedule => !derived.has(schedule))
      const { at, delayMs } = others.length > 0 ? earliestFit(others, decision.cost, nowMs) : { at: nowMs, delayMs: 0 }
      if (at > nowMs) return undefined
      for (const schedule of others) schedule.admit(nowMs, decision.cost)
      const writing = await this.#write(names, reading, standing)
      if (writing.written) return delayMs
      reading = writing
    }
    return undefined
  }

  async #release(charges: readonly Charge[], names: readonly string[], departure: Departure): Promise<void> {
    await this.#lock.hold(names, async () => {
      let reading: ScheduleReading = await this.#store.look(names)
      for (let tries = 0; tries < MOST_TRIES; tries++) {
        if (reading.texts.some(text => bodyOf(text) === '')) return
        const schedules = charges.map(({ limit }, i) => parse(limit, reading.texts[i], reading.nowMs))
        for (const schedule of schedules) schedule.remove(departure)
        const writing = await this.#write(names, reading, { nowMs: reading.nowMs, schedules, derived: new Set() })
        if (writing.written) return
        reading = writing
      }
    })
  }

  #write(
    names: readonly string[],
    reading: ScheduleReading,
    { schedules, nowMs }: Standing,
  ): SyncOrAsync<ScheduleWriting> {
    const token = newToken()
    return this.#store.write(
      names,
      schedules.map((schedule, i) => ({
        expected: tokenOf(reading.texts[i]),
        text: token + JSON.stringify(schedule),
        lifetimeMs: Math.max(1, schedule.lifetimeMs(nowMs)) + 1000,
      })),
    )
  }

  async #standing(
    limiter: RateLimiter,
    key: LimiterKey,
    decision: Decision,
    charges: readonly Charge[],
    { nowMs, texts }: ScheduleReading,
  ): Promise<Standing> {
    const missing = texts.some(text => bodyOf(text) === '')
    const states = missing ? await this.#storeStates(limiter, key, decision, nowMs) : []
    const derived = new Set<LimitSchedule>()
    const schedules = charges.map(({ limit }, i) => {
      if (bodyOf(texts[i]) !== '') return parse(limit, texts[i], nowMs)
      const schedule = new LimitSchedule(limit, states[i], [], nowMs)
      derived.add(schedule)
      return schedule
    })
    return { nowMs, schedules, derived }
  }

  /** The store's count so far, for each limit. */
  async #storeStates(limiter: RateLimiter, key: LimiterKey, decision: Decision, nowMs: number) {
    const { cost, verdicts, degraded } = decision
    const asFarAsKnown = () =>
      verdicts.map(verdict => stateOf(verdict, [{ cost, afterMs: verdict.retryAfterMs }], nowMs))
    if (degraded) return asFarAsKnown()
    try {
      const [stands, first] = await limiter.standing(key, [0, cost])
      const retries = await this.#retries(limiter, key, cost, stands, first)
      return stands.map((verdict, i) => stateOf(verdict, retries[i], nowMs))
    } catch (error) {
      if (error instanceof StoreError) return asFarAsKnown()
      throw error
    }
  }

  /** When one message, two messages, three messages … of this cost would fit, unless all fit at one moment. */
  async #retries(
    limiter: RateLimiter,
    key: LimiterKey,
    cost: number,
    stands: readonly Verdict[],
    first: readonly Verdict[],
  ): Promise<Retry[][]> {
    const most = Math.max(
      ...stands.map(({ limit, resetAfterMs }, i) => {
        const { needsRetries } = algorithmOf(limit.algorithm)
        return needsRetries && first[i].retryAfterMs !== resetAfterMs ? Math.floor(limit.quota / cost) : 1
      }),
    )
    const costs = Array.from({ length: Math.min(most, this.#maxPerKey, MOST_RETRIES) }, (_, i) => (i + 1) * cost)
    const further = await limiter.standing(key, costs.slice(1))
    return stands.map((_, i) =>
      [first, ...further].flatMap((verdicts, k) => {
        const { allowed, retryAfterMs } = verdicts[i]
        if (allowed || retryAfterMs === Number.POSITIVE_INFINITY) return []
        return [{ cost: costs[k], afterMs: retryAfterMs }]
      }),
    )
  }
}

function refused(waitMs: number): Reservation {
  return { dueAt: undefined, waitMs, release: async () => {} }
}

/**
 * The moment behind which a request of this key comes. If limits have separate keys, messages that share only one of
 * them do not delay it.
 */
function lastOf(schedules: readonly LimitSchedule[]): number {
  return Math.min(...schedules.map(schedule => schedule.lastAt))
}

/** Whether messages wait under every limit, according to the written schedules. */
function somebodyWaits(charges: readonly Charge[], texts: readonly string[], nowMs: number): boolean {
  if (texts.some(text => bodyOf(text) === '')) return false
  return lastOf(charges.map(({ limit }, i) => parse(limit, texts[i], nowMs))) > nowMs
}

function parse(limit: Charge['limit'], text: string, nowMs: number): LimitSchedule {
  return LimitSchedule.parse(limit, JSON.parse(bodyOf(text)) as StoredSchedule, nowMs)
}

/**
 * A change that keeps the counts keeps the schedule; any other starts a new one, because the state would have another
 * meaning.
 */
function nameOf({ key, limit, limiter = DEFAULT_LIMITER }: Charge): string {
  return [limiter, limit.name, limit.algorithm, countedSpan(limit), key].map(keySegment).join(':')
}
