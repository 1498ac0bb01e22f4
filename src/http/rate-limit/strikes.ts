import type { Decision } from '../../core/decision.js'
import { type Duration, parseOption } from '../../core/duration.js'
import { PolicyError, StoreError, shown } from '../../core/errors.js'
import { checkOptions, type OptionNames } from '../../core/option-names.js'
import { RateLimiter, type RateLimiterOptions } from '../../limiter/rate-limiter.js'
import { countsHits } from '../../stores/express-rate-limit/hit-store.js'

/** When a key that keeps coming is refused for longer. */
export interface BlockOptions {
  /** Denials within `window` after which the key is blocked; integer ≥ 1. */
  after: number
  /** For how long. */
  for: Duration
  /** Counted from the first of them; default: the limit's own window. */
  window?: Duration
}

const BLOCK_OPTIONS: OptionNames<BlockOptions> = { after: true, for: true, window: true }

export function checkBlockOptions(block: BlockOptions): void {
  if (typeof block !== 'object' || block === null) throw mistake(`block ${shown(block)}`)
  checkOptions('rateLimit: block', block, BLOCK_OPTIONS, '{ after: 20, for: "1h" }')
  if (!(Number.isSafeInteger(block.after) && block.after >= 1)) throw mistake(`block: after ${shown(block.after)}`)
  parseOption(block.for, 'rateLimit: block: for')
  if (block.window !== undefined) parseOption(block.window, 'rateLimit: block: window')
}

function mistake(what: string): PolicyError {
  return new PolicyError(
    `rateLimit: ${what}: expected { after: denials ≥ 1, for: duration }, like { after: 20, for: "1h" }`,
  )
}

/** Counts denials of each key, in the limiter's own store, and blocks a key that has too many. */
export class Strikes {
  readonly #block: BlockOptions
  readonly #options: Omit<RateLimiterOptions, 'policy'>
  /** By window: limits of one policy may differ in it. */
  readonly #counters = new Map<Duration, RateLimiter>()

  constructor(block: BlockOptions, options: Omit<RateLimiterOptions, 'policy'>) {
    checkBlockOptions(block)
    this.#block = block
    // A store of express-rate-limit counts one window, which is taken: then this process counts the denials, as it keeps the blocks.
    const store = countsHits(options.store) ? undefined : options.store
    this.#options = {
      ...options,
      store,
      name: `strikes of ${options.name ?? 'default'}`,
      shadow: false,
      observer: undefined,
    }
  }

  /** One more denial. The decision to answer with: the same, or that of a key that has just been blocked. */
  async strike(limiter: RateLimiter, decision: Decision): Promise<Decision> {
    const { limit, key, cost } = decision
    // Nobody has counted while the store fails, and who can never fit need not be kept away.
    if (decision.blocked || decision.degraded || decision.retryAfterMs === Number.POSITIVE_INFINITY) return decision
    const count = await this.#counter(limit.windowMs).consume(JSON.stringify([limit.name, key]))
    if (count.degraded || (count.allowed && count.remaining > 0)) return decision
    const own = { [limit.name]: key }
    try {
      await limiter.block(own, this.#block.for)
    } catch (error) {
      // The denial stands, block or no block.
      if (error instanceof StoreError) return decision
      throw error
    }
    return limiter.peek(own, cost)
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
