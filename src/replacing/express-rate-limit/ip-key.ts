import { formatIPv6, isIPv4, maskIPv6, readIPv6 } from '../../http/address/address.js'
import { checkInteger } from '../../limiter/core/options.js'

const MAPPED = '::ffff:'

/**
 * The key of an address: an IPv4 address itself; for an IPv6 address the network of its first `ipv6Subnet` bits
 * (default 56; false: the address as it is), in its shortest form, like `2001:db8:0:ff00::/56`.
 *
 * An IPv4 address in IPv6 notation (`::ffff:1.2.3.4`, `::ffff:102:304`, `::1.2.3.4`) is that IPv4 address. Any other
 * text is its own key. For a `keyGenerator` that falls back on the address:
 * `req => req.user?.id ?? ipKeyGenerator(req.ip)`. Throws `PolicyError` for an invalid subnet.
 */
export function ipKeyGenerator(ip: string, ipv6Subnet: number | false = 56): string {
  // The caller chooses the key of a request without an address.
  if (typeof ip !== 'string' || isIPv4(ip)) return ip
  if (ip.startsWith(MAPPED) && isIPv4(ip, MAPPED.length)) return ip.slice(MAPPED.length)
  const zone = ip.indexOf('%')
  const groups = readIPv6(zone < 0 ? ip : ip.slice(0, zone))
  if (groups === undefined) return ip
  const [a, b, c, d, e, mark, high, low] = groups
  const mapped = mark === 0xffff
  // The range of compatible addresses includes `::1` and others that contain no IPv4 address: only the notation tells.
  const carries = (a | b | c | d | e) === 0 && (mapped || (mark === 0 && ip.includes('.')))
  if (carries) return `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`
  if (!ipv6Subnet) return ip
  // Plain JavaScript passes on texts of the environment.
  const bits = /^[1-9]\d*$/.test(String(ipv6Subnet)) ? Number(ipv6Subnet) : ipv6Subnet
  checkInteger(bits, 'ipv6Subnet', '56, or false', 1, 128)
  return `${formatIPv6(maskIPv6(groups, bits))}/${bits}`
}
