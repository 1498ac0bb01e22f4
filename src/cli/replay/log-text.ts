const BACKSLASH = 92
const LETTERS = new Map([...'nrtbvf'].map((letter, i) => [letter.charCodeAt(0), [10, 13, 9, 8, 11, 12][i]]))

/**
 * The text between two offsets as the client sent it: escapes by the server (`\"`, `\\`, `\n`, `\xe4`) are undone.
 *
 * Read as UTF-8, or byte by byte where it is not UTF-8, so that different junk stays different. Always a string of its
 * own: a slice would keep the whole block of the log alive.
 */
export function textOf(bytes: Buffer, start: number, end: number): string {
  for (let i = start; i < end; i++) {
    if (bytes[i] === BACKSLASH) {
      const plain = unescaped(bytes.subarray(start, end))
      return decoded(plain, 0, plain.length)
    }
  }
  return decoded(bytes, start, end)
}

function decoded(bytes: Buffer, start: number, end: number): string {
  const text = bytes.toString('utf8', start, end)
  return text.includes('\ufffd') ? bytes.toString('latin1', start, end) : text
}

function unescaped(bytes: Buffer): Buffer {
  const plain = Buffer.alloc(bytes.length)
  let length = 0
  let i = 0
  while (i < bytes.length) {
    const escaped = bytes[i] === BACKSLASH ? bytes[i + 1] : undefined
    if (escaped === undefined) plain[length++] = bytes[i++]
    else if (escaped === 120 && hexPair(bytes, i + 2) >= 0) {
      plain[length++] = hexPair(bytes, i + 2)
      i += 4
    } else {
      plain[length++] = LETTERS.get(escaped) ?? escaped
      i += 2
    }
  }
  return plain.subarray(0, length)
}

function hexPair(bytes: Uint8Array, at: number): number {
  return at + 1 < bytes.length ? (hexDigit(bytes[at]) << 4) | hexDigit(bytes[at + 1]) : -1
}

function hexDigit(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48
  const letter = byte | 0x20
  return letter >= 97 && letter <= 102 ? letter - 87 : -1
}
