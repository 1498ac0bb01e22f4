import { PolicyError, shown } from '../../core/errors.js'
import { type Address, routerOf6to4 } from './address.js'
import { networkOf, readRange } from './address-range.js'
import { maskIPv4 } from './ipv4.js'

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
