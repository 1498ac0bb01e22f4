import { carriedIPv4, formatIPv6, isIPv4, maskIPv6, readIPv6 } from './address.js'

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
 * `::ffff:1.2.3.4`, compatible `::1.2.3.4`, NAT64 `64:ff9b::1.2.3.4`) is that IPv4 address, by its bits, however it is
 * written. A zone (`%eth0`), brackets and a port are left out.
 *
 * What is no address (a host name in a log, a forged header) is its own key, in lower case.
 */
export function addressKey(address: string, ipv6Subnet: number | false = IPV6_SUBNET): string {
  if (isIPv4(address)) return address
  // A dual-stack socket names every IPv4 client so: the commonest form of all.
  if (address.startsWith(MAPPED) && isIPv4(address, MAPPED.length)) return address.slice(MAPPED.length)
  const host = hostOf(address.trim())
  if (isIPv4(host)) return host
  const groups = readIPv6(host)
  if (!groups) return host.toLowerCase()
  const carried = carriedIPv4(groups)
  if (carried) return carried
  return ipv6Subnet === false ? formatIPv6(groups) : `${formatIPv6(maskIPv6(groups, ipv6Subnet))}/${ipv6Subnet}`
}

/** '[2001:db8::1]:443', '1.2.3.4:443' and 'fe80::1%eth0' without what is not the address. */
function hostOf(text: string): string {
  let host = text
  if (host.startsWith('[')) {
    const end = host.indexOf(']')
    if (end > 0) host = host.slice(1, end)
  } else {
    const colon = host.indexOf(':')
    // One colon only: a port. A proxy that writes one would otherwise give each connection a count of its own.
    if (colon > 0 && host.indexOf(':', colon + 1) < 0) host = host.slice(0, colon)
  }
  const zone = host.indexOf('%')
  return zone > 0 ? host.slice(0, zone) : host
}
