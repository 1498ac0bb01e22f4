import { PolicyError, shown } from '../../limiter/core/errors.js'
import {
  type Address,
  carriedIPv4,
  type Groups,
  maskIPv4,
  maskIPv6,
  readAddress,
  readIPv4,
  readIPv6,
  routerOf6to4,
} from './address.js'

/** The bits before the IPv4 address in an IPv6 address, in the notations that contain one. */
const CARRIER_BITS = 96

/** The network that a list entry names: its length in bits, and its first address. */
type AddressRange =
  | { readonly kind: 'ipv4'; readonly length: number; readonly network: number }
  | { readonly kind: 'ipv6'; readonly length: number; readonly network: string }

/**
 * Reads an address or a CIDR range. `option` names the list in the `PolicyError`, like 'rateLimit: deny'.
 *
 * A range within a notation that contains IPv4 (`::ffff:10.0.0.0/104`, `64:ff9b::10.0.0.0/104`) is that IPv4 range, in
 * every notation. The notation as a whole (`64:ff9b::/96`, `::ffff:0:0/96`, or shorter) is a range of IPv6: it contains
 * only addresses in that notation.
 */
function readRange(entry: unknown, option: string): AddressRange {
  if (typeof entry !== 'string') throw notARange(entry, option)
  const slash = entry.indexOf('/')
  const address = slash < 0 ? entry : entry.slice(0, slash)
  const suffix = slash < 0 ? undefined : entry.slice(slash + 1)
  const given = suffix === undefined ? undefined : /^\d{1,3}$/.test(suffix) ? Number(suffix) : Number.NaN
  const range = readNetwork(address, given)
  if (range === undefined) throw notARange(entry, option)
  return range
}

function networkOf(groups: Groups, length: number): string {
  return maskIPv6(groups, length).join(':')
}

function readNetwork(address: string, given: number | undefined): AddressRange | undefined {
  const ipv4 = readIPv4(address)
  if (ipv4 !== undefined) return ipv4Range(ipv4, given ?? 32)
  const zone = address.indexOf('%')
  const groups = readIPv6(zone < 0 ? address : address.slice(0, zone))
  const length = given ?? 128
  if (groups === undefined || !(length <= 128)) return undefined
  const carried = length > CARRIER_BITS ? carriedIPv4(groups) : undefined
  if (carried !== undefined) return ipv4Range(carried, length - CARRIER_BITS)
  return { kind: 'ipv6', length, network: networkOf(groups, length) }
}

function ipv4Range(bits: number, length: number): AddressRange | undefined {
  return length <= 32 ? { kind: 'ipv4', length, network: maskIPv4(bits, length) } : undefined
}

function notARange(entry: unknown, option: string): PolicyError {
  return new PolicyError(
    `${option}: ${shown(entry)}: expected an address or a CIDR range, like "192.0.2.7", "10.0.0.0/8" or ` +
      '"2001:db8::/32"',
  )
}

/** An IPv4 range counts as the last 32 of 128 bits, so that lengths of both kinds are comparable. */
const IPV4_OFFSET = 96
/** In a 6to4 address the IPv4 address follows the first 16 bits. */
const OFFSET_6TO4 = 16

/** Lengths of prefixes, the longest first, each with the networks of that length. */
type Networks<Network> = ReadonlyArray<readonly [length: number, networks: ReadonlySet<Network>]>

/**
 * Addresses and networks. Looking an address up costs one look into a set for each
 * distinct prefix length, however many entries there are.
 *
 * Notation does not matter: an IPv4 address inside an IPv6 one (mapped, compatible, NAT64) is that IPv4 address. A
 * 6to4 address matches entries for itself and entries for the IPv4 address of its router.
 */
export class AddressSet {
  readonly #ipv4: Networks<number>
  readonly #ipv6: Networks<string>
  readonly isEmpty: boolean

  /** `option` names the list in a `PolicyError`, like 'rateLimit: deny'. */
  constructor(entries: readonly string[], option: string) {
    if (!Array.isArray(entries)) {
      throw new PolicyError(`${option} ${shown(entries)}: expected a list, like ["10.0.0.0/8", "2001:db8::/32"]`)
    }
    const ipv4 = new Map<number, Set<number>>()
    const ipv6 = new Map<number, Set<string>>()
    for (const entry of entries) {
      const range = readRange(entry, option)
      if (range.kind === 'ipv4') add(ipv4, range.length, range.network)
      else add(ipv6, range.length, range.network)
    }
    this.#ipv4 = longestFirst(ipv4)
    this.#ipv6 = longestFirst(ipv6)
    this.isEmpty = entries.length === 0
  }

  /** The prefix length of the narrowest range that contains the address, 0 to 128 (IPv4: from 96); -1 if none does. */
  match({ ipv4, ipv6 }: Address): number {
    const own = ipv4 === undefined ? -1 : this.#matchIPv4(ipv4, IPV4_OFFSET)
    if (ipv6 === undefined) return own
    const router = routerOf6to4(ipv6)
    const routed = router === undefined ? -1 : this.#matchIPv4(router, OFFSET_6TO4)
    for (const [length, networks] of this.#ipv6) {
      if (networks.has(networkOf(ipv6, length))) return Math.max(own, routed, length)
    }
    return Math.max(own, routed)
  }

  #matchIPv4(bits: number, offset: number): number {
    for (const [length, networks] of this.#ipv4) if (networks.has(maskIPv4(bits, length))) return offset + length
    return -1
  }
}

function add<Network>(byLength: Map<number, Set<Network>>, length: number, network: Network): void {
  const networks = byLength.get(length) ?? new Set()
  byLength.set(length, networks.add(network))
}

function longestFirst<Network>(byLength: Map<number, Set<Network>>): Networks<Network> {
  return [...byLength].sort(([a], [b]) => b - a)
}

/** The addresses that are never limited, and those that are never let in. */
export class AddressLists {
  readonly #allow: AddressSet
  readonly #deny: AddressSet
  readonly isEmpty: boolean

  /** Throws `PolicyError` for an invalid address; `owner` is the beginning of its message, like 'rateLimit'. */
  constructor(allow: readonly string[], deny: readonly string[], owner: string) {
    this.#allow = new AddressSet(allow, `${owner}: allow`)
    this.#deny = new AddressSet(deny, `${owner}: deny`)
    this.isEmpty = this.#allow.isEmpty && this.#deny.isEmpty
  }

  /**
   * If both lists contain the address, the narrower range decides; of two equal ranges, the denial. 'unreadable': the
   * text is not an address, and there is a deny list that it might have been on.
   */
  judge(text: string): 'allow' | 'deny' | 'unreadable' | undefined {
    const address = readAddress(text)
    if (address === undefined) return this.#deny.isEmpty ? undefined : 'unreadable'
    const allowed = this.#allow.match(address)
    const denied = this.#deny.match(address)
    if (denied >= 0 && denied >= allowed) return 'deny'
    return allowed >= 0 ? 'allow' : undefined
  }
}
