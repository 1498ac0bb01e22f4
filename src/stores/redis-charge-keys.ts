import type { AlgorithmName, Limit } from '../limit.js'
import { keySegment } from '../redis/keys.js'
import { type Charge, DEFAULT_LIMITER } from '../store.js'

const SHORT_NAMES: Record<AlgorithmName, string> = {
  'fixed-window': 'fw',
  'sliding-window': 'sw',
  'sliding-counter': 'sc',
  'token-bucket': 'tb',
  'leaky-bucket': 'lb',
}

/**
 * The Redis key of a charge: `prefix:{client}:limiter:limit:kind`. The hash tag is the client, so that all limits of one
 * request lie in one slot. A change of quota keeps the key and with it what was spent; a change of algorithm or window, whose
 * state would mean something else, does not.
 */
export class ChargeKeys {
  readonly #suffixes = new WeakMap<Limit, Map<string | undefined, string>>()

  constructor(readonly prefix: string) {}

  of(charge: Charge): string {
    return `${this.prefix}:{${keySegment(charge.key)}}${this.#suffix(charge.limit, charge.limiter)}`
  }

  #suffix(limit: Limit, limiter: string | undefined): string {
    let suffixes = this.#suffixes.get(limit)
    if (suffixes === undefined) {
      suffixes = new Map()
      this.#suffixes.set(limit, suffixes)
    }
    let suffix = suffixes.get(limiter)
    if (suffix === undefined) {
      const kind = `${SHORT_NAMES[limit.algorithm]}${limit.windowMs}`
      suffix = `:${keySegment(limiter ?? DEFAULT_LIMITER)}:${keySegment(limit.name)}:${kind}`
      suffixes.set(limiter, suffix)
    }
    return suffix
  }
}
