import { BlockRule, type Strikes } from '../../limiter/block-rule.js'
import { type Clock, monotonicClock } from '../../limiter/core/clock.js'
import { blockedVerdict, type Decision } from '../../limiter/core/decision.js'
import type { Duration } from '../../limiter/core/duration.js'
import { PolicyError, StoreError, shown } from '../../limiter/core/errors.js'
import { LARGEST_QUOTA, type Limit, parseSpan } from '../../limiter/core/limit.js'
import { getOrMake } from '../../limiter/core/maps.js'
import { checkOptions, type OptionNames } from '../../limiter/core/options.js'
import { shortKey } from '../../limiter/core/short-key.js'
import { countName } from '../../limiter/count-name.js'
import { countsOf } from '../../limiter/foreign-store.js'
import { optionsOf, type RateLimiter, type RateLimiterOptions, strike } from '../../limiter/rate-limiter.js'
import { NEWCOMERS } from '../newcomers.js'
import type { SyncOrAsync } from '../sync-or-async.js'

/** Blocks a key that continues to send requests over the limit. */
export interface BlockOptions {
  /**
   * Denials within `window` after which the key is blocked; integer ≥ 1. A block uses them up: after it, the key needs
   * as many again.
   */
  after: number
  /** For how long it is blocked; more than 0. */
  for: Duration
  /** Counted from the first denial; default: the limit's own window. */
  window?: Duration
  /** The n-th block of a key lasts `for` × `factor` ** (n − 1). A number ≥ 1; default 1: all blocks are equal. */
  factor?: number
  /** The longest block, at least `for`; default '1d', or `for` if that is longer. */
  max?: Duration
  /** How long after the end of its last block a key starts again with the first; default: `max`. */
  forget?: Duration
}

const BLOCK_OPTIONS: OptionNames<BlockOptions> = {
  after: true,
  for: true,
  window: true,
  factor: true,
  max: true,
  forget: true,
}
const DAY_MS = 86_400_000

/** The option `block`, checked: the rule for a limit with this window. */
export type BlockSettings = (limitWindowMs: number) => BlockRule

/** Throws `PolicyError` for invalid options. */
export function parseBlock(block: BlockOptions): BlockSettings {
  if (typeof block !== 'object' || block === null) throw mistake(`block ${shown(block)}`)
  checkOptions('rateLimit: block', block, BLOCK_OPTIONS, '{ after: 20, for: "1h" }', NEWCOMERS)
  const { after, window, factor = 1, max, forget } = block
  if (!(Number.isSafeInteger(after) && after >= 1 && after <= LARGEST_QUOTA))
    throw mistake(`block: after ${shown(after)}`)
  const forMs = parseSpan(block.for, 'rateLimit: block: for')
  const windowMs = window === undefined ? undefined : parseSpan(window, 'rateLimit: block: window')
  if (!(typeof factor === 'number' && factor >= 1 && factor < Number.POSITIVE_INFINITY)) {
    throw new PolicyError(`rateLimit: block: factor ${shown(factor)}: expected a number ≥ 1, like 2`)
  }
  const maxMs = max === undefined ? Math.max(DAY_MS, forMs) : parseSpan(max, 'rateLimit: block: max')
  if (maxMs < forMs) {
    throw new PolicyError(`rateLimit: block: max ${shown(max)}: expected at least \`for\`, ${forMs} ms`)
  }
  const forgetMs = forget === undefined ? maxMs : parseSpan(forget, 'rateLimit: block: forget')
  // Blocks that do not grow need no memory of those before.
  const grows = factor > 1
  return limitWindowMs =>
    new BlockRule(after, windowMs ?? limitWindowMs, forMs, factor, grows ? maxMs : forMs, grows ? forgetMs : 0)
}

function mistake(what: string): PolicyError {
  return new PolicyError(
    `rateLimit: ${what}: expected { after: denials ≥ 1, for: duration }, like { after: 20, for: "1h" }`,
  )
}

/** What this process knows of the denials of one key. */
interface Tally {
  readonly name: string
  /** The last denial, and the limiter that made it. */
  denial: Decision
  limiter: RateLimiter
  /** The denials left before the block, by the store's last answer, less those reported since. */
  left: number
  /** Denials that are not reported to the store yet, and when the oldest was made. */
  pending: number
  sinceAt: number
  /** When the count in the store ends, and when the store was last asked. */
  endsAt: number
  updatedAt: number
  /**
   * The report that is under way, and the one that follows it with the denials of the meantime. undefined: the store
   * failed.
   */
  report: Promise<Strikes | undefined> | undefined
  next: Promise<Strikes | undefined> | undefined
}

/**
 * Denials from the deny cache are reported to the store within this time, and not with every request unless they may be
 * the last before a block.
 */
const REPORT_EVERY_MS = 100
/** Above this number of keys, the key reported longest ago is dropped, with its pending denials. */
const MOST_TALLIES = 10_000

/**
 * Reports denials of each key to the limiter's own store, which counts them and blocks a key with too many, in one
 * step: see `Store.strike`. One report of a key is under way at a time. Denials from the deny cache, which cost the
 * store nothing, are reported several at a time: as many as cannot be the last before a block.
 */
export class AutoBlock {
  readonly #settings: BlockSettings
  readonly #clock: Clock
  /** By window: limits of one policy may have different windows. */
  readonly #rules = new Map<number, BlockRule>()
  /** The one reported longest ago first. */
  readonly #tallies = new Map<string, Tally>()
  /** Those with pending denials that no request waits for. */
  readonly #unreported = new Set<Tally>()
  #timer: ReturnType<typeof setTimeout> | undefined

  /** Throws `PolicyError` for a store that has no blocks. */
  constructor(settings: BlockSettings, store: Required<RateLimiterOptions>['store']) {
    this.#settings = settings
    const counts = countsOf(store)
    if (counts.can?.('block') === false) {
      throw new PolicyError(
        `rateLimit: block: the store ${shown(store)} has no block(): expected a store that has, like a ` +
          'MemoryStore or a RedisStore',
      )
    }
    // As the deny cache does: the ages of denials are measured by the clock of the store, if there is one.
    this.#clock = counts.clock ?? monotonicClock
  }

  /** Counts one more denial. Returns the decision to answer with: the same, or that of a key that is blocked. */
  countDenial(limiter: RateLimiter, denial: Decision): SyncOrAsync<Decision> {
    // During an outage there is no count, and a request that can never fit says nothing about its client.
    if (denial.blocked || denial.degraded || denial.retryAfterMs === Number.POSITIVE_INFINITY) return denial
    const nowMs = this.#clock.now()
    const tally = this.#tallyOf(limiter, denial, nowMs)
    if (tally.pending++ === 0) tally.sinceAt = nowMs
    const isReported = tally.report !== undefined || nowMs - tally.updatedAt < REPORT_EVERY_MS
    if (denial.source === 'deny-cache' && isReported && tally.pending < tally.left) {
      this.#unreported.add(tally)
      this.#timer ??= this.#reportLater()
      return denial
    }
    return this.#reported(tally).then(strikes =>
      strikes === undefined || strikes.blockedMs === 0 ? denial : blocked(denial, strikes.blockedMs),
    )
  }

  #tallyOf(limiter: RateLimiter, denial: Decision, nowMs: number): Tally {
    const name = shortKey(
      JSON.stringify([countName({ limit: denial.limit, limiter: optionsOf(limiter).name }), denial.key]),
    )
    const known = this.#tallies.get(name)
    if (known !== undefined && (known.report !== undefined || known.endsAt > nowMs)) {
      return Object.assign(known, { limiter, denial })
    }
    if (known !== undefined) this.#unreported.delete(known)
    const none = { left: 0, pending: 0, sinceAt: nowMs, endsAt: nowMs, updatedAt: nowMs }
    return { name, denial, limiter, ...none, report: undefined, next: undefined }
  }

  /** The answer to the report that contains the denial that was just counted. */
  #reported(tally: Tally): Promise<Strikes | undefined> {
    if (tally.report === undefined) return this.#report(tally)
    tally.next ??= tally.report.then(strikes => {
      tally.next = undefined
      // Then these denials, too, are answered with the block.
      return strikes !== undefined && strikes.blockedMs > 0 ? strikes : this.#report(tally)
    })
    return tally.next
  }

  #report(tally: Tally): Promise<Strikes | undefined> {
    const { limiter, denial } = tally
    const nowMs = this.#clock.now()
    const denials = { count: tally.pending, ageMs: Math.max(0, nowMs - tally.sinceAt) }
    tally.left = Math.max(0, tally.left - tally.pending)
    tally.pending = 0
    tally.updatedAt = nowMs
    this.#note(tally)
    const end = (strikes: Strikes | undefined) => {
      tally.report = undefined
      if (strikes === undefined) return undefined
      if (strikes.blockedMs > 0) this.#drop(tally)
      tally.left = strikes.left
      tally.endsAt = nowMs + strikes.resetAfterMs
      return strikes
    }
    tally.report = strike(limiter, denial.key, denial.limit, denials, this.#ruleOf(denial.limit)).then(end, error => {
      end(undefined)
      // The denial stands, with or without a block.
      if (error instanceof StoreError) return undefined
      throw error
    })
    return tally.report
  }

  /** Denials must count even if the last of a burst were remembered ones. */
  #reportLater(): ReturnType<typeof setTimeout> {
    const timer = setTimeout(() => {
      this.#timer = undefined
      const tallies = [...this.#unreported]
      this.#unreported.clear()
      for (const tally of tallies) if (tally.pending > 0) this.#reported(tally).catch(() => {})
    }, REPORT_EVERY_MS)
    timer.unref?.()
    return timer
  }

  #note(tally: Tally): void {
    this.#tallies.delete(tally.name)
    this.#tallies.set(tally.name, tally)
    const [oldest] = this.#tallies.values()
    if (this.#tallies.size > MOST_TALLIES && oldest !== undefined) this.#drop(oldest)
  }

  #drop(tally: Tally): void {
    this.#tallies.delete(tally.name)
    this.#unreported.delete(tally)
  }

  #ruleOf({ windowMs }: Limit): BlockRule {
    return getOrMake(this.#rules, windowMs, () => this.#settings(windowMs))
  }
}

/** The decision on a request of a key that is blocked under the limit that denied it. */
function blocked(decision: Decision, forMs: number): Decision {
  const verdicts = decision.verdicts.map(one => (one.limit === decision.limit ? blockedVerdict(one, forMs) : one))
  return { ...blockedVerdict(decision, forMs), verdicts }
}
