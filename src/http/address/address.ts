import { readIPv4 } from './ipv4.js'
import { type Groups, readIPv6 } from './ipv6.js'

/** An IP address, in any notation. */
export interface Address {
  /** The 32 bits of the IPv4 address, or of the IPv4 address inside an IPv6 notation: mapped, compatible, NAT64. */
  readonly ipv4: number | undefined
  /** The eight groups, if it was written as IPv6. */
  readonly ipv6: Groups | undefined
}

/**
 * Reads an address as sockets, proxies and people write it: IPv4, IPv6 in any notation of RFC 4291, in brackets or not, with a
 * zone (`%eth0`) or not, with a port (`:4711`, or `:_name` as RFC 7239 allows) or not, with space around it. undefined for any
 * other text.
 *
 * Every key, list and proxy setting reads addresses with this function, so that a notation has the same meaning for a list and
 * for a count.
 */
export function readAddress(text: string): Address | undefined {
  const host = hostOf(text.trim())
  if (host === undefined) return undefined
  const zone = host.indexOf('%')
  const bare = zone < 0 ? host : host.slice(0, zone)
  const ipv4 = readIPv4(bare)
  if (ipv4 !== undefined) return { ipv4, ipv6: undefined }
  const ipv6 = readIPv6(bare)
  return ipv6 && { ipv4: carriedIPv4(ipv6), ipv6 }
}

/** The IPv4 address inside an IPv6 address, if there is one: mapped, compatible or NAT64. */
export function carriedIPv4(groups: Groups): number | undefined {
  return carriesIPv4(groups) ? bitsOf(groups[6], groups[7]) : undefined
}

/** The IPv4 address of the router of a 6to4 address (2002::/16), which owns a whole /48. */
export function routerOf6to4(groups: Groups): number | undefined {
  return groups[0] === 0x2002 ? bitsOf(groups[1], groups[2]) : undefined
}

function bitsOf(high: number, low: number): number {
  return high * 0x10000 + low
}

function carriesIPv4(groups: Groups): boolean {
  if (groups[2] !== 0 || groups[3] !== 0 || groups[4] !== 0) return false
  // NAT64 (RFC 6052) maps the whole IPv4 internet into one /96; masked to a subnet, it would share a single count.
  if (groups[0] === 0x64 && groups[1] === 0xff9b) return groups[5] === 0
  if (groups[0] !== 0 || groups[1] !== 0) return false
  // `::`, `::1` and their neighbours would map to 0.0.0.0/8, which no client has.
  return groups[5] === 0xffff || (groups[5] === 0 && groups[6] > 255)
}

const PORT = /^(\d{0,5}|_[\w.-]+)$/

/** The text without brackets and port; undefined if they are malformed. */
function hostOf(text: string): string | undefined {
  if (text.startsWith('[')) {
    const end = text.indexOf(']')
    if (end < 0) return undefined
    const rest = text.slice(end + 1)
    return rest === '' || (rest.startsWith(':') && PORT.test(rest.slice(1))) ? text.slice(1, end) : undefined
  }
  const colon = text.indexOf(':')
  // With more than one colon, all belong to an IPv6 address.
  if (colon < 0 || text.indexOf(':', colon + 1) >= 0) return text
  return PORT.test(text.slice(colon + 1)) ? text.slice(0, colon) : undefined
}
