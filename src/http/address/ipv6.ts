import { isIPv4 } from './ipv4.js'

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
