import { readAddress } from './address.js'
import { formatIPv4, isIPv4 } from './ipv4.js'
import { formatIPv6, maskIPv6 } from './ipv6.js'

/** The bits of an IPv6 address that identify a customer: the network that a provider commonly assigns to one. */
export const IPV6_SUBNET = 56

const MAPPED = '::ffff:'

/**
 * A client’s address as a key. Neither the notation of an address nor the size of a client's network gives one client
 * several counts.
 *
 * An IPv4 address is its own key. An IPv6 address is masked to its first `ipv6Subnet` bits (1 to 128; default 56, because
 * a customer has a whole network and could use a new address for each request) and returned in lower case, as
 * `2001:db8:0:ff00::/56`; `false` keeps the whole address. An IPv6 address that contains an IPv4 one (mapped
 * `::ffff:1.2.3.4`, compatible `::1.2.3.4`, NAT64 `64:ff9b::1.2.3.4`) is that IPv4 address. Zone, brackets and port are left out.
 *
 * Any other text (a host name, a forged header) is its own key, in lower case.
 */
export function maskedAddress(address: string, ipv6Subnet: number | false = IPV6_SUBNET): string {
  // Fast path for the two forms in which sockets report IPv4 clients, without allocations.
  if (isIPv4(address)) return address
  if (address.startsWith(MAPPED) && isIPv4(address, MAPPED.length)) return address.slice(MAPPED.length)
  const read = readAddress(address)
  if (read === undefined) return address.trim().toLowerCase()
  if (read.ipv4 !== undefined) return formatIPv4(read.ipv4)
  const groups = read.ipv6!
  return ipv6Subnet === false ? formatIPv6(groups) : `${formatIPv6(maskIPv6(groups, ipv6Subnet))}/${ipv6Subnet}`
}
