import { PolicyError, shown } from '../../core/errors.js'
import { carriedIPv4 } from './address.js'
import { maskIPv4, readIPv4 } from './ipv4.js'
import { type Groups, maskIPv6, readIPv6 } from './ipv6.js'

/** The bits before the IPv4 address in an IPv6 address, in the notations that contain one. */
const CARRIER_BITS = 96

/** The network that a list entry names: its length in bits, and its first address. */
type AddressRange =
  | { readonly kind: 'ipv4'; readonly length: number; readonly network: number }
  | { readonly kind: 'ipv6'; readonly length: number; readonly network: string }

/**
 * Reads an address or a CIDR range. `option` names the list in the `PolicyError`, like 'rateLimit: deny'.
 *
 * A range within a notation that contains IPv4 (`::ffff:10.0.0.0/104`, `64:ff9b::10.0.0.0/104`) is that IPv4 range, in every
 * notation. The notation as a whole (`64:ff9b::/96`, `::ffff:0:0/96`, or shorter) is a range of IPv6: it contains only addresses
 * in that notation.
 */
export function readRange(entry: unknown, option: string): AddressRange {
  if (typeof entry !== 'string') throw notARange(entry, option)
  const slash = entry.indexOf('/')
  const address = slash < 0 ? entry : entry.slice(0, slash)
  const suffix = slash < 0 ? undefined : entry.slice(slash + 1)
  const given = suffix === undefined ? undefined : /^\d{1,3}$/.test(suffix) ? Number(suffix) : Number.NaN
  const range = readNetwork(address, given)
  if (range === undefined) throw notARange(entry, option)
  return range
}

export function networkOf(groups: Groups, length: number): string {
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
    `${option}: ${shown(entry)}: expected an address or a CIDR range, like "192.0.2.7", "10.0.0.0/8" or "2001:db8::/32"`,
  )
}
