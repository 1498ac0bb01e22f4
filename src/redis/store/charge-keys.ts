import { clientSegment, keySegment, segmentText } from '../../limiter/core/key-segment.js'
import type { Limit } from '../../limiter/core/limit.js'
import { BoundedMap, getOrMake } from '../../limiter/core/maps.js'
import { hashOf } from '../../limiter/core/short-key.js'
import { countName } from '../../limiter/count-name.js'
import { type Charge, DEFAULT_LIMITER } from '../../limiter/store.js'
import type { ClientPort } from '../client.js'
import { crc16, evenTags } from '../keys.js'

/** Limiters whose limits are remembered, and limits of each. */
const MOST_LIMITERS = 10_000
const MOST_LIMITS = 100

/** A list of blocked keys. */
export interface BlockList {
  readonly key: string
  /** Of one limit: all lists of a limit, one for each tag, have the same. */
  readonly suffix: string
  readonly tag: number
}

/**
 * The Redis keys of charges. On one server `prefix:{client}:limiter:count`, where `countName` says what a count is; on a
 * cluster `prefix:{tag}:client:…`, where the tag is one of a fixed number, because a script call may only touch keys of
 * one slot.
 */
export class ChargeKeys {
  readonly #suffixes = new WeakMap<Limit, Map<string | undefined, string>>()
  /** What the keys of each limiter end with, of those that were met last. */
  readonly #met = new BoundedMap<string, BoundedMap<string, true>>(MOST_LIMITERS)

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
    const [before, after] = this.#around(tag)
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
    return this.#blockList(this.#suffix(charge), tag)
  }

  /** Remembers a limit of a limiter, for `blockLists`. */
  meet({ limit, limiter = DEFAULT_LIMITER }: Pick<Charge, 'limit' | 'limiter'>): void {
    getOrMake(this.#met, limiter, () => new BoundedMap(MOST_LIMITS)).set(suffixOf(limit, limiter), true)
  }

  /** The lists of blocked clients under the limits of a limiter that were met; of one client those that may name it. */
  blockLists(limiter: string, client?: string): BlockList[] {
    const tags = client === undefined ? this.#tags.map((_, tag) => tag) : [this.tagOf(client)]
    const suffixes = [...(this.#met.get(limiter)?.keys() ?? [])]
    return suffixes.flatMap(suffix => tags.map(tag => ({ key: this.#blockList(suffix, tag), suffix, tag })))
  }

  /** How a client is named in a list. */
  memberOf({ suffix, tag }: BlockList, client: string): string {
    const [before, after] = this.#around(tag)
    return `${before}${clientSegment(client)}${after}${suffix}`
  }

  /** The client that a member of a list names; of a client with a very long key, its hash. */
  clientOf({ suffix, tag }: BlockList, member: string): string {
    const [before, after] = this.#around(tag)
    return segmentText(member.slice(before.length, member.length - after.length - suffix.length))
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

  /** What stands around a client in a key. */
  #around(tag: number): readonly [before: string, after: string] {
    return this.port.cluster ? [`${this.prefix}:{${this.#tags[tag]}}:`, ''] : [`${this.prefix}:{`, '}']
  }

  #blockList(suffix: string, tag: number): string {
    return `${this.prefix}:${this.port.cluster ? `{${this.#tags[tag]}}` : ''}!blocked${suffix}`
  }

  #suffix({ limit, limiter }: Charge): string {
    let suffixes = this.#suffixes.get(limit)
    if (suffixes === undefined) {
      suffixes = new Map()
      this.#suffixes.set(limit, suffixes)
    }
    let suffix = suffixes.get(limiter)
    if (suffix === undefined) {
      suffix = suffixOf(limit, limiter ?? DEFAULT_LIMITER)
      suffixes.set(limiter, suffix)
      this.onNewLimit?.(limiter ?? DEFAULT_LIMITER, limit)
    }
    return suffix
  }
}

function suffixOf(limit: Limit, limiter: string): string {
  return `:${keySegment(limiter)}:${keySegment(countName({ limit, limiter }))}`
}
