import { clientSegment, keySegment } from '../../limiter/core/key-segment.js'
import type { Limit } from '../../limiter/core/limit.js'
import { hashOf } from '../../limiter/core/short-key.js'
import { countName } from '../../limiter/count-name.js'
import { type Charge, DEFAULT_LIMITER } from '../../limiter/store.js'
import type { ClientPort } from '../client.js'
import { crc16, evenTags } from '../keys.js'

/**
 * The Redis keys of charges. On one server `prefix:{client}:limiter:count`, where `countName` says what a count is; on a
 * cluster `prefix:{tag}:client:…`, where the tag is one of a fixed number, because a script call may only touch keys of
 * one slot.
 */
export class ChargeKeys {
  readonly #suffixes = new WeakMap<Limit, Map<string | undefined, string>>()

  readonly #tags: readonly string[]
  readonly #slots: readonly number[]

  /**
   * `tags`: the number of hash tags over which a cluster's keys are spread. `onNewLimit` is called once for each limit.
   */
  constructor(
    readonly prefix: string,
    readonly port: ClientPort,
    tags: number,
    readonly onNewLimit?: (limiter: string, limit: Limit) => void,
  ) {
    this.#tags = port.cluster ? evenTags(tags) : ['']
    this.#slots = this.#tags.map(tag => port.slotOf(`${prefix}:{${tag}}`))
  }

  /** The number of the hash tag of a client's key. Charges with the same tag may share a script call. */
  tagOf(key: string): number {
    return this.port.cluster ? crc16(key) % this.#tags.length : 0
  }

  /** The server that keeps the keys of this tag: see `ClientPort.serverOf`. */
  serverOf(tag: number): string {
    return this.port.cluster ? this.port.serverOf(this.#slots[tag]) : ''
  }

  keyOf(charge: Charge, tag: number): string {
    return this.toKey(charge, tag)(charge.key)
  }

  /** The function from a client's key to the Redis key, for all charges of the same limit and limiter. */
  toKey(charge: Charge, tag: number): (client: string) => string {
    const [before, after] = this.port.cluster ? [`${this.prefix}:{${this.#tags[tag]}}:`, ''] : [`${this.prefix}:{`, '}']
    const end = `${after}${this.#suffix(charge)}`
    return client => before + clientSegment(client) + end
  }

  /** The key of the charge's refund note: see lua/limiter/notes.lua. */
  noteOf(charge: Charge, tag: number): string {
    return `${this.keyOf(charge, tag)}:settled`
  }

  /** The key of the list of sold leases. */
  leasesOf(charge: Charge, tag: number): string {
    return `${this.keyOf(charge, tag)}:leases`
  }

  /** The keys that count the charge's denials, and its blocks: see lua/limiter/strikes.lua. */
  strikesOf(charge: Charge, tag: number): [denials: string, blocks: string] {
    const key = this.keyOf(charge, tag)
    return [`${key}:denials`, `${key}:blocks`]
  }

  /** The key of the list of blocked clients under the charge's limit. */
  blockListOf(charge: Charge, tag: number): string {
    return `${this.prefix}:${this.port.cluster ? `{${this.#tags[tag]}}` : ''}!blocked${this.#suffix(charge)}`
  }

  /**
   * The key of the units that wait in all lines in which requests wait for these limits together: see `note_units`
   * in lua/waiting/line/lines.lua.
   */
  waitingUnitsOf(charges: readonly Charge[], tag: number): string {
    const suffixes = keySegment(charges.map(charge => this.#suffix(charge)).join(' '))
    return `${this.prefix}:${this.port.cluster ? `{${this.#tags[tag]}}` : ''}!waiting:${suffixes}`
  }

  /**
   * The keys of the line in which requests wait for these limits together: see `open` in
   * lua/waiting/line/lines.lua. The first names the line: each combination of limits has its own.
   */
  lineOf(charges: readonly Charge[], tag: number): [line: string, asks: string, meta: string] {
    const [first, ...others] = charges.map(charge => this.keyOf(charge, tag))
    let line = `${first}:line`
    if (others.length > 0) line += `:${hashOf(others.join(' ')).slice(1, 23)}`
    return [line, `${line}:asks`, `${line}:meta`]
  }

  #suffix({ limit, limiter }: Charge): string {
    let suffixes = this.#suffixes.get(limit)
    if (suffixes === undefined) {
      suffixes = new Map()
      this.#suffixes.set(limit, suffixes)
    }
    let suffix = suffixes.get(limiter)
    if (suffix === undefined) {
      suffix = `:${keySegment(limiter ?? DEFAULT_LIMITER)}:${keySegment(countName({ limit, limiter }))}`
      suffixes.set(limiter, suffix)
      this.onNewLimit?.(limiter ?? DEFAULT_LIMITER, limit)
    }
    return suffix
  }
}
