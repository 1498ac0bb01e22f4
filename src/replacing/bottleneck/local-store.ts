import { type Clock, monotonicClock } from '../../limiter/core/clock.js'
import type { Job } from './job.js'
import { STRATEGIES, type StoreOptions } from './options.js'
import {
  type Answer,
  BLOCKED,
  type Errand,
  FULL,
  type LimiterStore,
  type Tick,
  TOO_HEAVY,
  type Verdict,
  WAITS,
} from './store.js'

/** The state of a limiter in this process. Its arithmetic is that of lua/replacing/bottleneck/bottleneck_tick.lua. */
export class LocalStore implements LimiterStore {
  readonly ready: Promise<object> = Promise.resolve({})
  readonly clients = {}
  #running = 0
  #done = 0
  /** When the next job may be launched. */
  #nextAt: number
  #blockedUntil = Number.NEGATIVE_INFINITY
  /** The moment of the last refresh and increase, also of those that nobody saw. */
  #refreshedAt: number
  #increasedAt: number

  constructor(
    readonly storeOptions: StoreOptions,
    readonly timeout: number | null,
    readonly channel: string,
    readonly hear: (message: string) => void,
    readonly clock: Clock = monotonicClock,
  ) {
    this.#nextAt = this.#refreshedAt = this.#increasedAt = clock.now()
  }

  tick({ freed, ended, heads, queued, received, errand }: Tick): Answer {
    const options = this.storeOptions
    const now = this.clock.now()
    this.#refill(now)
    for (const { options } of freed) this.#running -= options.weight
    this.#done += ended
    const waits: number[] = []
    while (waits.length < heads.length && this.#fits(heads[waits.length]))
      waits.push(this.#launch(heads[waits.length], now))
    const verdicts: Verdict[] = []
    let length = queued - waits.length
    // The head of the queue does not fit, so that only a job of a better priority may. Infinity: the queue is empty.
    let blocking = heads[waits.length]?.options.priority ?? Number.POSITIVE_INFINITY
    // Heads that are not known yet go first.
    const later = waits.length === heads.length && length > 0
    for (const job of later ? [] : received) {
      const { weight, priority } = job.options
      if (options.maxConcurrent !== null && weight > options.maxConcurrent) {
        verdicts.push(TOO_HEAVY)
        continue
      }
      const isFull = length === options.highWater && !(this.#fits(job) && this.#nextAt <= now)
      if (options.strategy === STRATEGIES.BLOCK && (isFull || this.#blockedUntil >= now)) {
        this.#blockedUntil = now + (options.penalty ?? (15 * options.minTime || 5000))
        this.#nextAt = this.#blockedUntil + options.minTime
        length = 0
        blocking = Number.POSITIVE_INFINITY
        verdicts.push(BLOCKED)
        continue
      }
      if (isFull) {
        verdicts.push(FULL)
        break
      }
      if (priority < blocking && this.#fits(job)) {
        verdicts.push(this.#launch(job, now))
        continue
      }
      length++
      blocking = Math.min(blocking, priority)
      verdicts.push(WAITS)
    }
    const isWhole = !later && verdicts.length === received.length && verdicts.at(-1) !== FULL
    const { reservoir } = options
    const result = errand === undefined || !isWhole ? undefined : this.#carryOut(errand, length, now)
    return {
      waits,
      verdicts,
      running: this.#running,
      reservoir,
      maxConcurrent: options.maxConcurrent,
      strategy: options.strategy,
      result,
      renewMs: Number.POSITIVE_INFINITY,
      dropsQueue: false,
      againMs: Math.min(this.#refreshAt(), this.#increaseAt()) - now,
    }
  }

  #fits({ options: { weight } }: { readonly options: { readonly weight: number } }): boolean {
    const { maxConcurrent, reservoir } = this.storeOptions
    return (
      (maxConcurrent === null || weight <= maxConcurrent - this.#running) && (reservoir === null || weight <= reservoir)
    )
  }

  /** Takes a place; `minTime` runs from launch to launch. In how many ms the job is launched. */
  #launch({ options: { weight } }: Job, now: number): number {
    const options = this.storeOptions
    this.#running += weight
    if (options.reservoir !== null) options.reservoir -= weight
    const wait = Math.max(0, this.#nextAt - now)
    this.#nextAt = now + wait + options.minTime
    return wait
  }

  #carryOut({ verb, value = 0, changes = {} }: Errand, queued: number, now: number): number | boolean | null {
    const options = this.storeOptions
    if (verb === 'running') return this.#running
    if (verb === 'done') return this.#done
    if (verb === 'queued') return queued
    if (verb === 'check') return this.#fits({ options: { weight: value } }) && this.#nextAt <= now
    if (verb === 'add') options.reservoir = (options.reservoir ?? 0) + value
    if (verb === 'set') {
      // A new interval begins now.
      if (isOther(changes.reservoirRefreshInterval, options.reservoirRefreshInterval)) this.#refreshedAt = now
      if (isOther(changes.reservoirIncreaseInterval, options.reservoirIncreaseInterval)) this.#increasedAt = now
      Object.assign(options, changes)
    }
    return options.reservoir
  }

  /** When the next refresh is due; Infinity: never. */
  #refreshAt(): number {
    const { reservoirRefreshInterval: every, reservoirRefreshAmount: amount } = this.storeOptions
    return every !== null && every > 0 && amount !== null ? this.#refreshedAt + every : Number.POSITIVE_INFINITY
  }

  #increaseAt(): number {
    const { reservoirIncreaseInterval: every, reservoirIncreaseAmount: amount } = this.storeOptions
    return every !== null && every > 0 && amount !== null ? this.#increasedAt + every : Number.POSITIVE_INFINITY
  }

  /** The refreshes and increases that were due. */
  #refill(now: number): void {
    const options = this.storeOptions
    if (now >= this.#refreshAt()) {
      const every = options.reservoirRefreshInterval as number
      this.#refreshedAt += timesOf(every, now - this.#refreshedAt) * every
      options.reservoir = options.reservoirRefreshAmount
    }
    if (now >= this.#increaseAt()) {
      const every = options.reservoirIncreaseInterval as number
      const times = timesOf(every, now - this.#increasedAt)
      this.#increasedAt += times * every
      const reservoir = options.reservoir ?? 0
      const room = (options.reservoirIncreaseMaximum ?? Number.POSITIVE_INFINITY) - reservoir
      options.reservoir = reservoir + Math.max(0, Math.min((options.reservoirIncreaseAmount as number) * times, room))
    }
  }

  async publish(message: string): Promise<void> {
    await new Promise(resolve => setTimeout(resolve, 0))
    this.hear(message)
  }

  async disconnect(): Promise<void> {}
}

function isOther(given: number | null | undefined, current: number | null): boolean {
  return given !== undefined && given !== current
}

/** How often an interval has passed: at least once, also where a fraction of a ms was lost. */
function timesOf(every: number, passed: number): number {
  return Math.max(1, Math.floor(passed / every))
}
