const DOT = 46
const ZERO = 48

/** True for four decimal bytes in `text` from `start` to `end`, without leading zeros, which some parsers read as octal. */
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

/** The 32 bits of an IPv4 address as a number from 0; undefined for any other text. */
export function readIPv4(text: string): number | undefined {
  if (!isIPv4(text)) return undefined
  let bits = 0
  for (const byte of text.split('.')) bits = bits * 256 + Number(byte)
  return bits
}

export function formatIPv4(bits: number): string {
  return `${bits >>> 24}.${(bits >>> 16) & 255}.${(bits >>> 8) & 255}.${bits & 255}`
}

/** The first `length` bits (0 to 32), the others 0. */
export function maskIPv4(bits: number, length: number): number {
  // In JavaScript, a shift by 32 shifts by 0.
  return length === 0 ? 0 : (bits & (0xffffffff << (32 - length))) >>> 0
}
