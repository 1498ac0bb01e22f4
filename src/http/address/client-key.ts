import { readAddress } from './address.js'
import { formatIPv4, isIPv4 } from './ipv4.js'
import { formatIPv6, maskIPv6 } from './ipv6.js'

/** The bits of an IPv6 address that name its owner: what a provider commonly hands out to one customer. */
export const IPV6_SUBNET = 56

const MAPPED = '::ffff:'

/**
 * The key that stands for a client's address, so that neither the notation of an address nor the size of a network
 * decides how many counts one client has.
 *
 * An IPv4 address is its own key. An IPv6 address is masked to its first `ipv6Subnet` bits (1 to 128; default 56, since
 * one customer has a whole network and could use a fresh address for each request) and given in lower case, as
 * `2001:db8:0:ff00::/56`; `false` keeps the whole address. An IPv6 address that merely carries an IPv4 one (mapped
 * `::ffff:1.2.3.4`, compatible `::1.2.3.4`, NAT64 `64:ff9b::1.2.3.4`) is that IPv4 address. Zone, brackets and port are left out.
 *
 * A text that is no address (a host name in a log, a forged header) is its own key, in lower case.
 */
export function addressKey(address: string, ipv6Subnet: number | false = IPV6_SUBNET): string {
  // The two forms in which sockets name IPv4 clients, before anything is allocated.
  if (isIPv4(address)) return address
  if (address.startsWith(MAPPED) && isIPv4(address, MAPPED.length)) return address.slice(MAPPED.length)
  const read = readAddress(address)
  if (read === undefined) return address.trim().toLowerCase()
  if (read.ipv4 !== undefined) return formatIPv4(read.ipv4)
  const groups = read.ipv6!
  return ipv6Subnet === false ? formatIPv6(groups) : `${formatIPv6(maskIPv6(groups, ipv6Subnet))}/${ipv6Subnet}`
}
