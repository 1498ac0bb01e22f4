/**
 * Texts that the build has packed: they share most of their lines. JSON of all different lines, and for each text the
 * runs of lines that it consists of (the first line and how many), compressed with DEFLATE, in base64: a tenth of the
 * size. Unpacked on first use, without a module of Node: it also runs on the edge.
 */
export function packedTexts(packed: string): () => Readonly<Record<string, string>> {
  let texts: Record<string, string> | undefined
  return () => {
    texts ??= unpacked(packed)
    return texts
  }
}

function unpacked(packed: string): Record<string, string> {
  const json = new TextDecoder().decode(inflate(bytesOf(packed)))
  const [lines, runs] = JSON.parse(json) as [lines: string[], runs: Record<string, number[]>]
  const texts: Record<string, string> = {}
  for (const [name, numbers] of Object.entries(runs)) {
    const parts: string[] = []
    for (let i = 0; i < numbers.length; i += 2) parts.push(...lines.slice(numbers[i], numbers[i] + numbers[i + 1]))
    texts[name] = parts.join('\n')
  }
  return texts
}

function bytesOf(base64: string): Uint8Array {
  const letters = atob(base64)
  // `Uint8Array.from` takes six times as long for a string, in a process that has just started.
  const bytes = new Uint8Array(letters.length)
  for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i)
  return bytes
}

const LONGEST_CODE = 15
/** The order in which the lengths of code lengths are written. */
const ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15]

/** A Huffman code: how many symbols have each length, and all symbols in the order of their codes. */
interface Code {
  readonly counts: Uint16Array
  readonly symbols: Uint16Array
}

/** Decompresses DEFLATE (RFC 1951), as the build writes it: without stored blocks. */
export function inflate(input: Uint8Array): Uint8Array {
  let output = new Uint8Array(input.length * 8)
  let length = 0
  let at = 0
  const bits = (count: number): number => {
    let value = 0
    for (let i = 0; i < count; i++, at++) value |= ((input[at >> 3] >> (at & 7)) & 1) << i
    return value
  }
  const symbolOf = ({ counts, symbols }: Code): number => {
    let code = 0
    let first = 0
    let index = 0
    for (let size = 1; size <= LONGEST_CODE; size++) {
      code |= bits(1)
      const count = counts[size]
      if (code - first < count) return symbols[index + code - first]
      index += count
      first = (first + count) << 1
      code <<= 1
    }
    throw new RangeError('the packed data are damaged')
  }
  const put = (byte: number) => {
    if (length === output.length) {
      const larger = new Uint8Array(2 * length)
      larger.set(output)
      output = larger
    }
    output[length++] = byte
  }
  for (let isLast = false; !isLast; ) {
    isLast = bits(1) === 1
    const [literals, distances] = bits(2) === 1 ? fixedCodes() : writtenCodes(bits, symbolOf)
    for (let symbol = symbolOf(literals); symbol !== 256; symbol = symbolOf(literals)) {
      if (symbol < 256) {
        put(symbol)
        continue
      }
      const copied = symbol === 285 ? 258 : 3 + spanOf(symbol - 257, 2, bits)
      const back = 1 + spanOf(symbolOf(distances), 1, bits)
      for (let i = 0; i < copied; i++) put(output[length - back])
    }
  }
  return output.subarray(0, length)
}

/**
 * A length or a distance: its symbol gives the highest bits, of which `kept` follow the first; the others are written
 * behind it.
 */
function spanOf(symbol: number, kept: number, bits: (count: number) => number): number {
  const size = symbol >> kept
  if (size === 0) return symbol
  const more = size - 1
  return (((1 << kept) | (symbol & ((1 << kept) - 1))) << more) | bits(more)
}

function codeOf(sizes: readonly number[]): Code {
  const counts = new Uint16Array(LONGEST_CODE + 1)
  for (const size of sizes) counts[size]++
  counts[0] = 0
  const next = new Uint16Array(LONGEST_CODE + 2)
  for (let size = 1; size <= LONGEST_CODE; size++) next[size + 1] = next[size] + counts[size]
  const symbols = new Uint16Array(sizes.length)
  for (const [symbol, size] of sizes.entries()) if (size > 0) symbols[next[size]++] = symbol
  return { counts, symbols }
}

function fixedCodes(): [literals: Code, distances: Code] {
  const sizes = Array.from({ length: 288 }, (_, i) => (i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8))
  return [codeOf(sizes), codeOf(new Array(30).fill(5))]
}

function writtenCodes(bits: (count: number) => number, symbolOf: (code: Code) => number): [Code, Code] {
  const literals = 257 + bits(5)
  const distances = 1 + bits(5)
  const written = 4 + bits(4)
  const sizesOfSizes = new Array<number>(19).fill(0)
  for (const place of ORDER.slice(0, written)) sizesOfSizes[place] = bits(3)
  const code = codeOf(sizesOfSizes)
  const sizes: number[] = []
  while (sizes.length < literals + distances) {
    const symbol = symbolOf(code)
    if (symbol < 16) sizes.push(symbol)
    else {
      const repeated = symbol === 16 ? sizes[sizes.length - 1] : 0
      const times = symbol === 16 ? 3 + bits(2) : symbol === 17 ? 3 + bits(3) : 11 + bits(7)
      for (let i = 0; i < times; i++) sizes.push(repeated)
    }
  }
  return [codeOf(sizes.slice(0, literals)), codeOf(sizes.slice(literals))]
}
