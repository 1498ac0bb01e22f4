import type { Decision } from '../../core/decision.js'
import { type Duration, parseOption } from '../../core/duration.js'
import { PolicyError, StoreError, shown } from '../../core/errors.js'
import { checkOptions, type OptionNames } from '../../core/option-names.js'
import { shortKey } from '../../core/short-key.js'
import { RateLimiter, type RateLimiterOptions } from '../../limiter/rate-limiter.js'
import { countsHits } from '../../stores/express-rate-limit/hit-store.js'
import type { SyncOrAsync } from '../sync-or-async.js'
import { type Growth, Penalties } from './penalties.js'

/** Blocks a key that continues to send requests over the limit. */
export interface BlockOptions {
  /** Denials within `window` after which the key is blocked; integer ≥ 1. */
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

/** Checks the options: `PolicyError`. */
export function checkBlockOptions(block: BlockOptions): void {
  growthOf(block)
}

/** How the blocks of a key grow. Throws `PolicyError` for invalid options. */
function growthOf(block: BlockOptions): Growth {
  if (typeof block !== 'object' || block === null) throw mistake(`block ${shown(block)}`)
  checkOptions('rateLimit: block', block, BLOCK_OPTIONS, '{ after: 20, for: "1h" }')
  if (!(Number.isSafeInteger(block.after) && block.after >= 1)) throw mistake(`block: after ${shown(block.after)}`)
  const forMs = parseOption(block.for, 'rateLimit: block: for')
  if (block.window !== undefined) parseOption(block.window, 'rateLimit: block: window')
  const { factor = 1 } = block
  if (!(typeof factor === 'number' && factor >= 1 && factor < Number.POSITIVE_INFINITY)) {
    throw new PolicyError(`rateLimit: block: factor ${shown(factor)}: expected a number ≥ 1, like 2`)
  }
  const maxMs = block.max === undefined ? Math.max(DAY_MS, forMs) : parseOption(block.max, 'rateLimit: block: max')
  if (maxMs < forMs) {
    throw new PolicyError(`rateLimit: block: max ${shown(block.max)}: expected at least \`for\`, ${forMs} ms`)
  }
  const forgetMs = block.forget === undefined ? maxMs : parseOption(block.forget, 'rateLimit: block: forget')
  return { forMs, factor, maxMs, forgetMs }
}

function mistake(what: string): PolicyError {
  return new PolicyError(
    `rateLimit: ${what}: expected { after: denials ≥ 1, for: duration }, like { after: 20, for: "1h" }`,
  )
}

/** The denials of one key, as known to this process. */
interface Tally {
  /** The denials left before the block, by the store's last answer. */
  left: number
  /** Denials that are not counted in the store yet. */
  pending: number
  /** When the count in the store ends, and when the store was last updated; by `performance.now()`. */
  endsAt: number
  updatedAt: number
}

/** Denials from the deny cache are counted in the store at most this often, unless they may be the last before a block. */
const UPDATE_EVERY_MS = 100
/** Above this number of keys, the key updated longest ago is dropped, with its uncounted denials. */
const MOST_TALLIES = 10_000

/**
 * Counts denials of each key, in the limiter's own store, and blocks a key with too many. Denials from the deny cache, which cost the store
 * nothing, are counted several at a time: as many as cannot be the last before a block.
 */
export class AutoBlock {
  readonly #block: BlockOptions
  readonly #options: Omit<RateLimiterOptions, 'policy'>
  /** By window: limits of one policy may have different windows. */
  readonly #counters = new Map<Duration, RateLimiter>()
  readonly #penalties: Penalties
  /** The one updated longest ago first. */
  readonly #tallies = new Map<string, Tally>()

  constructor(block: BlockOptions, options: Omit<RateLimiterOptions, 'policy'>) {
    const growth = growthOf(block)
    this.#block = block
    // A store made for express-rate-limit has one count for each key, which the limiter needs: denials are then counted in this process.
    const store = countsHits(options.store) ? undefined : options.store
    this.#options = {
      ...options,
      store,
      name: `strikes of ${options.name ?? 'default'}`,
      shadow: false,
      // The limiter itself reports failures of its store.
      observer: {},
    }
    this.#penalties = new Penalties(growth, this.#options)
  }

  /** Counts one more denial. Returns the decision to answer with: the same, or that of a key that has just been blocked. */
  countDenial(limiter: RateLimiter, decision: Decision): SyncOrAsync<Decision> {
    const { limit, key, source } = decision
    // During an outage there is no count, and a request that can never fit says nothing about its client.
    if (decision.blocked || decision.degraded || decision.retryAfterMs === Number.POSITIVE_INFINITY) return decision
    const name = shortKey(JSON.stringify([limit.name, key]))
    const nowMs = performance.now()
    const tally = this.#tallies.get(name)
    if (tally === undefined || tally.endsAt <= nowMs) return this.#count(limiter, decision, name, 1)
    tally.pending++
    if (source === 'deny-cache' && tally.pending < tally.left && nowMs - tally.updatedAt < UPDATE_EVERY_MS)
      return decision
    return this.#count(limiter, decision, name, tally.pending)
  }

  /** Counts denials in the store, and blocks the key if they are too many. */
  async #count(limiter: RateLimiter, decision: Decision, name: string, denials: number): Promise<Decision> {
    const { limit, key, cost } = decision
    const updatedAt = performance.now()
    const tally = this.#tallies.get(name)
    if (tally !== undefined) {
      tally.pending = 0
      tally.updatedAt = updatedAt
    }
    const count = await this.#counter(limit.windowMs).consume(name, Math.min(denials, this.#block.after))
    if (count.degraded) return decision
    if (count.allowed && count.remaining > 0) {
      this.#note(name, { left: count.remaining, pending: 0, endsAt: updatedAt + count.resetAfterMs, updatedAt })
      return decision
    }
    this.#tallies.delete(name)
    const own = { [limit.name]: key }
    try {
      await limiter.block(own, await this.#penalties.next(name))
    } catch (error) {
      // The denial stands, with or without a block.
      if (error instanceof StoreError) return decision
      throw error
    }
    return limiter.peek(own, cost)
  }

  #note(name: string, tally: Tally): void {
    // Denials that came while the store was updated are not counted yet.
    tally.pending += this.#tallies.get(name)?.pending ?? 0
    this.#tallies.delete(name)
    this.#tallies.set(name, tally)
    if (this.#tallies.size > MOST_TALLIES) this.#tallies.delete(this.#tallies.keys().next().value as string)
  }

  #counter(limitWindowMs: number): RateLimiter {
    const window = this.#block.window ?? limitWindowMs
    let counter = this.#counters.get(window)
    if (counter === undefined) {
      const policy = { quota: this.#block.after, window, algorithm: 'fixed-window', name: 'denials' } as const
      counter = new RateLimiter({ ...this.#options, policy })
      this.#counters.set(window, counter)
    }
    return counter
  }
}
