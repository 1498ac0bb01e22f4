/** The eight 16-bit groups of an IPv6 address. */
export type Groups = number[]

const DOT = 46
const COLON = 58
const ZERO = 48

/** True for four decimal bytes in `text` from `start` to `end`, without leading zeros, which some would read as octal. */
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
    const digit = code - ZERO
    if (digit < 0 || digit > 9 || (digits > 0 && byte === 0)) return false
    byte = byte * 10 + digit
    digits++
    if (byte > 255) return false
  }
  return dots === 3 && digits > 0
}

/** Reads any notation of RFC 4291, section 2.2 (without a zone); undefined for what is no IPv6 address. */
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
    // The colon behind a group must lead somewhere: to another group, or to a second colon.
    if (group < 0 || end === text.length - 1) return undefined
    groups.push(group)
    at = end + 1
  }
  if (gap < 0) return groups.length === 8 ? groups : undefined
  return groups.length < 8 ? fillGap(groups, gap) : undefined
}

/** The IPv4 address that an IPv6 address merely carries, if it does. */
export function carriedIPv4(groups: Groups): string | undefined {
  if (!carriesIPv4(groups)) return undefined
  const high = groups[6]
  const low = groups[7]
  return `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`
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

function carriesIPv4(groups: Groups): boolean {
  if (groups[2] !== 0 || groups[3] !== 0 || groups[4] !== 0) return false
  // NAT64 (RFC 6052) puts all of the IPv4 internet into one /96; masked to a subnet, it would share a single count.
  if (groups[0] === 0x64 && groups[1] === 0xff9b) return groups[5] === 0
  if (groups[0] !== 0 || groups[1] !== 0) return false
  // `::`, `::1` and their neighbours would be in 0.0.0.0/8, where no client is.
  return groups[5] === 0xffff || (groups[5] === 0 && groups[6] > 255)
}
