import type { AlgorithmName, Limit } from '../../core/limit.js'
import { crc16 } from '../../redis/crc16.js'
import { clientSegment, keySegment } from '../../redis/keys.js'
import { type Charge, DEFAULT_LIMITER } from '../store.js'

const SHORT_NAMES: Record<AlgorithmName, string> = {
  'fixed-window': 'fw',
  'sliding-window': 'sw',
  'sliding-counter': 'sc',
  'token-bucket': 'tb',
  'leaky-bucket': 'lb',
}

/** On a cluster, clients are spread over so many hash tags: enough to use all nodes, few enough that batches form. */
const TAGS = 256

/**
 * The Redis keys of charges. On one server `prefix:{client}:limiter:limit:kind`; on a cluster `prefix:{tag}:client:…`, where
 * the tag is one of a fixed number, because a script call may only touch keys of one slot. A change of quota keeps the key and
 * with it what was spent; a change of algorithm or window, whose state would mean something else, does not.
 */
export class ChargeKeys {
  readonly #suffixes = new WeakMap<Limit, Map<string | undefined, string>>()

  constructor(
    readonly prefix: string,
    readonly cluster: boolean,
  ) {}

  /** Charges of equal tag may share a script call. */
  tagOf(charge: Charge): number {
    return this.cluster ? crc16(charge.key) % TAGS : 0
  }

  keyOf(charge: Charge, tag: number): string {
    return this.toKey(charge, tag)(charge.key)
  }

  /** What makes keys out of clients, for all that are charged like this one. */
  toKey(charge: Charge, tag: number): (client: string) => string {
    const [before, after] = this.cluster ? [`${this.prefix}:{${tag}}:`, ''] : [`${this.prefix}:{`, '}']
    const end = `${after}${this.#suffix(charge)}`
    return client => before + clientSegment(client) + end
  }

  /** The list of those who wait for the charge's turn. */
  lineOf(charge: Charge, tag: number): string {
    return `${this.keyOf(charge, tag)}:line`
  }

  /** The list of those who are blocked under the charge's limit. */
  blockListOf(charge: Charge, tag: number): string {
    return `${this.prefix}:${this.cluster ? `{${tag}}` : ''}!blocked${this.#suffix(charge)}`
  }

  #suffix({ limit, limiter }: Charge): string {
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
