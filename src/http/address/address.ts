const DOT = 46
const DIGIT_0 = 48

/**
 * True for four decimal bytes in `text` from `start` to `end`, without leading zeros, which some parsers read as octal.
 */
export function isIPv4(text: string, start = 0, end = text.length): boolean {
  if (end - start < 7 || end - start > 15) return false
  let dots = 0
  let byte = 0
  let digits = 0
  for (let i = start; i < end; i++) {
    const code = text.charCodeAt(i)
    if (code === DOT) {
      if (digits === 0 || ++dots > 3) return false
      byte = 0
      digits = 0
      continue
    }
    const digit = code - DIGIT_0
    if (digit < 0 || digit > 9 || (digits > 0 && byte === 0)) return false
    byte = byte * 10 + digit
    digits++
    if (byte > 255) return false
  }
  return dots === 3 && digits > 0
}

/** The 32 bits of an IPv4 address as a number from 0; undefined for any other text. */
export function readIPv4(text: string): number | undefined {
  if (!isIPv4(text)) return undefined
  let bits = 0
  for (const byte of text.split('.')) bits = bits * 256 + Number(byte)
  return bits
}

function formatIPv4(bits: number): string {
  return `${bits >>> 24}.${(bits >>> 16) & 255}.${(bits >>> 8) & 255}.${bits & 255}`
}

/** The first `length` bits (0 to 32), the others 0. */
export function maskIPv4(bits: number, length: number): number {
  // In JavaScript, a shift by 32 shifts by 0.
  return length === 0 ? 0 : (bits & (0xffffffff << (32 - length))) >>> 0
}

/** The eight 16-bit groups of an IPv6 address. */
export type Groups = number[]

const COLON = 58
const ZERO = 48

/** Reads any notation of RFC 4291, section 2.2 (without a zone); undefined for any other text. */
export function readIPv6(text: string): Groups | undefined {
  const groups: Groups = []
  let gap = -1
  let at = 0
  if (text.charCodeAt(0) === COLON) {
    if (text.charCodeAt(1) !== COLON) return undefined
    at = 1
  }
  while (at < text.length) {
    if (text.charCodeAt(at) === COLON) {
      if (gap >= 0) return undefined
      gap = groups.length
      at++
      continue
    }
    if (groups.length === 8) return undefined
    let end = text.indexOf(':', at)
    if (end < 0) end = text.length
    if (groups.length <= 6 && end === text.length && isIPv4(text, at, end)) {
      const [a, b, c, d] = text.slice(at).split('.')
      groups.push(Number(a) * 256 + Number(b), Number(c) * 256 + Number(d))
      break
    }
    const group = readGroup(text, at, end)
    // The colon after a group must be followed by another group or a second colon.
    if (group < 0 || end === text.length - 1) return undefined
    groups.push(group)
    at = end + 1
  }
  if (gap < 0) return groups.length === 8 ? groups : undefined
  return groups.length < 8 ? fillGap(groups, gap) : undefined
}

/** The first `bits` bits, the others 0. */
export function maskIPv6(groups: Groups, bits: number): Groups {
  return groups.map((group, i) => {
    const kept = bits - i * 16
    if (kept >= 16) return group
    return kept <= 0 ? 0 : group & (0xffff << (16 - kept))
  })
}

/** RFC 5952: lower case, no leading zeros, '::' for the longest run of two or more zero groups, the first of equals. */
export function formatIPv6(groups: Groups): string {
  let gap = -1
  let gapLength = 1
  for (let i = 0; i < 8; i++) {
    let run = 0
    while (i + run < 8 && groups[i + run] === 0) run++
    if (run > gapLength) {
      gap = i
      gapLength = run
    }
    i += run
  }
  if (gap < 0) return hex(groups, 0, 8)
  return `${hex(groups, 0, gap)}::${hex(groups, gap + gapLength, 8)}`
}

function hex(groups: Groups, start: number, end: number): string {
  let text = ''
  for (let i = start; i < end; i++) text += (i > start ? ':' : '') + groups[i].toString(16)
  return text
}

/** One to four hexadecimal digits, or -1. */
function readGroup(text: string, start: number, end: number): number {
  if (end === start || end - start > 4) return -1
  let value = 0
  for (let i = start; i < end; i++) {
    const digit = hexDigit(text.charCodeAt(i))
    if (digit < 0) return -1
    value = value * 16 + digit
  }
  return value
}

function hexDigit(code: number): number {
  if (code >= ZERO && code <= ZERO + 9) return code - ZERO
  const lower = code | 32
  return lower >= 97 && lower <= 102 ? lower - 87 : -1
}

function fillGap(groups: Groups, gap: number): Groups {
  return [...groups.slice(0, gap), ...new Array<number>(8 - groups.length).fill(0), ...groups.slice(gap)]
}

/** An IP address, in any notation. */
export interface Address {
  /** The 32 bits of the IPv4 address, or of the IPv4 address inside an IPv6 notation: mapped, compatible, NAT64. */
  readonly ipv4: number | undefined
  /** The eight groups, if it was written as IPv6. */
  readonly ipv6: Groups | undefined
}

/**
 * Reads an address as sockets, proxies and people write it: IPv4, IPv6 in any notation of RFC 4291, in brackets or not,
 * with a zone (`%eth0`) or not, with a port (`:4711`, or `:_name` as RFC 7239 allows) or not, with space around it.
 * undefined for any other text.
 *
 * Every key, list and proxy setting reads addresses with this function, so that a notation has the same meaning for a
 * list and for a count.
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

/** The bits of an IPv6 address that identify a customer: the network that a provider commonly assigns to one. */
export const IPV6_SUBNET = 56

const MAPPED = '::ffff:'

/**
 * A client’s address as a key. Neither the notation of an address nor the size of a client's network gives one client
 * several counts.
 *
 * An IPv4 address is its own key. An IPv6 address is masked to its first `ipv6Subnet` bits (1 to 128; default 56,
 * because a customer has a whole network and could use a new address for each request) and returned in lower case, as
 * `2001:db8:0:ff00::/56`; `false` keeps the whole address. An IPv6 address that contains an IPv4 one (mapped
 * `::ffff:1.2.3.4`, compatible `::1.2.3.4`, NAT64 `64:ff9b::1.2.3.4`) is that IPv4 address. Zone, brackets and port are
 * left out.
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
