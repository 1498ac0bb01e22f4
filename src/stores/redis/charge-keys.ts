import { algorithmOf } from '../../algorithms/registry.js'
import type { Limit } from '../../core/limit.js'
import type { ClientPort } from '../../redis/client.js'
import { crc16 } from '../../redis/crc16.js'
import { clientSegment, keySegment } from '../../redis/keys.js'
import { evenTags, slotOf } from '../../redis/slot-tags.js'
import { type Charge, DEFAULT_LIMITER } from '../store.js'

/**
 * The Redis keys of charges. On one server `prefix:{client}:limiter:limit:kind`; on a cluster `prefix:{tag}:client:…`, where
 * the tag is one of a fixed number, because a script call may only touch keys of one slot. A change of quota keeps the key and
 * with it what was spent; a change of algorithm or window, whose state would mean something else, does not.
 */
export class ChargeKeys {
  readonly #suffixes = new WeakMap<Limit, Map<string | undefined, string>>()

  readonly #tags: readonly string[]
  readonly #slots: readonly number[]

  /** `tags`: how many hash tags the clients of a cluster are spread over. `met` is told of each limit once. */
  constructor(
    readonly prefix: string,
    readonly port: ClientPort,
    tags: number,
    readonly met?: (limiter: string, limit: Limit) => void,
  ) {
    this.#tags = port.cluster ? evenTags(tags) : ['']
    this.#slots = this.#tags.map(slotOf)
  }

  /** The number of its hash tag. Charges of equal tag may share a script call. */
  tagOf(charge: Charge): number {
    return this.port.cluster ? crc16(charge.key) % this.#tags.length : 0
  }

  /** Which server keeps what has this tag: see `ClientPort.serverOf`. */
  serverOf(tag: number): string {
    return this.port.cluster ? this.port.serverOf(this.#slots[tag]) : ''
  }

  keyOf(charge: Charge, tag: number): string {
    return this.toKey(charge, tag)(charge.key)
  }

  /** What makes keys out of clients, for all that are charged like this one. */
  toKey(charge: Charge, tag: number): (client: string) => string {
    const [before, after] = this.port.cluster ? [`${this.prefix}:{${this.#tags[tag]}}:`, ''] : [`${this.prefix}:{`, '}']
    const end = `${after}${this.#suffix(charge)}`
    return client => before + clientSegment(client) + end
  }

  /** What settlements have to know of the charge's key, beside what it has spent. */
  noteOf(charge: Charge, tag: number): string {
    return `${this.keyOf(charge, tag)}:settled`
  }

  /** Which leases of the charge's key have been sold. */
  leasesOf(charge: Charge, tag: number): string {
    return `${this.keyOf(charge, tag)}:leases`
  }

  /** The list of those who are blocked under the charge's limit. */
  blockListOf(charge: Charge, tag: number): string {
    return `${this.prefix}:${this.port.cluster ? `{${this.#tags[tag]}}` : ''}!blocked${this.#suffix(charge)}`
  }

  /** The marks of all lines in which somebody waits for these limits together: see line_mark.lua. */
  marksOf(charges: readonly Charge[], tag: number): string {
    const suffixes = keySegment(charges.map(charge => this.#suffix(charge)).join(' '))
    return `${this.prefix}:${this.port.cluster ? `{${this.#tags[tag]}}` : ''}!waiting:${suffixes}`
  }

  #suffix({ limit, limiter }: Charge): string {
    let suffixes = this.#suffixes.get(limit)
    if (suffixes === undefined) {
      suffixes = new Map()
      this.#suffixes.set(limit, suffixes)
    }
    let suffix = suffixes.get(limiter)
    if (suffix === undefined) {
      const { window, timezone } = limit.calendar ?? {}
      const length = window === undefined ? limit.windowMs : `-${window}-${keySegment(String(timezone))}`
      const kind = `${algorithmOf(limit.algorithm).inPlace.keySuffix}${length}`
      suffix = `:${keySegment(limiter ?? DEFAULT_LIMITER)}:${keySegment(limit.name)}:${kind}`
      suffixes.set(limiter, suffix)
      this.met?.(limiter ?? DEFAULT_LIMITER, limit)
    }
    return suffix
  }
}
