import { isIP } from 'node:net'

/** Who a limiter counts, as far as one of its keys tells: an address, or a network of IPv6, is what is counted by default. */
export function perOf(key: string): string {
  const [address, bits] = key.split('/')
  return isIP(address) > 0 && (bits === undefined || /^\d{1,3}$/.test(bits)) ? 'per address' : 'per key'
}
