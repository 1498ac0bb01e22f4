import { isIP } from 'node:net'

/** What a limiter counts, guessed from one of its keys: an address, or a network of IPv6, is the default key. */
export function keyKindOf(key: string): string {
  const [address, bits] = key.split('/')
  return isIP(address) > 0 && (bits === undefined || /^\d{1,3}$/.test(bits)) ? 'per address' : 'per key'
}
