import { PolicyError, shown } from '../../core/errors.js'
import { carriedIPv4, type Groups, isIPv4, maskIPv6, readIPv6 } from './address.js'

/** An IPv4 address counts as the last 32 of 128 bits, so that prefixes of both kinds compare. */
const IPV4_OFFSET = 96

/**
 * Addresses and CIDR ranges, '192.0.2.7', '10.0.0.0/8', '2001:db8::/32'. To look an address up takes one step for each
 * distinct prefix length in the set, 129 at most, however many entries it has. Notation does not matter: an IPv4 address in IPv6
 * clothing is that IPv4 address.
 */
export class AddressSet {
  /** Prefix lengths, longest first, each with the networks of that length. */
  readonly #networks: Array<readonly [bits: number, networks: Set<string>]>

  /** `option` names the list in a `PolicyError`. */
  constructor(entries: readonly string[], option: string) {
    if (!Array.isArray(entries)) {
      throw new PolicyError(
        `rateLimit: ${option} ${shown(entries)}: expected a list, like ["10.0.0.0/8", "2001:db8::/32"]`,
      )
    }
    const byBits = new Map<number, Set<string>>()
    for (const entry of entries) {
      const { groups, bits } = readRange(entry, option)
      const networks = byBits.get(bits) ?? new Set()
      byBits.set(bits, networks.add(networkOf(groups, bits)))
    }
    this.#networks = [...byBits].sort(([a], [b]) => b - a)
  }

  /** How many bits of the address the narrowest range that holds it names (IPv4: 96 to 128); -1 if none does. */
  match(address: string): number {
    if (this.#networks.length === 0) return -1
    const groups = readAddress(address)
    if (groups === undefined) return -1
    for (const [bits, networks] of this.#networks) if (networks.has(networkOf(groups, bits))) return bits
    return -1
  }
}

function networkOf(groups: Groups, bits: number): string {
  return maskIPv6(groups, bits).join(':')
}

/** An address as eight groups, IPv4 as ::ffff:a.b.c.d. */
function readAddress(text: string): Groups | undefined {
  if (isIPv4(text)) return readIPv6(`::ffff:${text}`)
  const zone = text.indexOf('%')
  const groups = readIPv6(zone > 0 ? text.slice(0, zone) : text)
  const carried = groups && carriedIPv4(groups)
  return carried === undefined ? groups : readIPv6(`::ffff:${carried}`)
}

function readRange(entry: unknown, option: string): { groups: Groups; bits: number } {
  if (typeof entry !== 'string') throw notARange(entry, option)
  const slash = entry.indexOf('/')
  const address = slash < 0 ? entry : entry.slice(0, slash)
  const length = slash < 0 ? undefined : entry.slice(slash + 1)
  const offset = isIPv4(address) ? IPV4_OFFSET : 0
  const bits = length === undefined ? 128 : /^\d{1,3}$/.test(length) ? Number(length) + offset : Number.NaN
  // A range of IPv6 that is wider than the IPv4 part of it must stay one.
  const groups = bits >= IPV4_OFFSET ? readAddress(address) : readIPv6(address)
  if (groups === undefined || !(bits <= 128)) throw notARange(entry, option)
  return { groups, bits }
}

function notARange(entry: unknown, option: string): PolicyError {
  return new PolicyError(
    `rateLimit: ${option}: ${shown(entry)}: expected an address or a CIDR range, like "192.0.2.7", "10.0.0.0/8" or "2001:db8::/32"`,
  )
}
