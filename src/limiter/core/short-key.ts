const BASE64URL = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

const PRIMES = /* @__PURE__ */ firstPrimes(64)
const START = /* @__PURE__ */ fractions(PRIMES.slice(0, 8), 1 / 2)
const ROUNDS = /* @__PURE__ */ fractions(PRIMES, 1 / 3)

/**
 * SHA-256 (FIPS 180-4) of a text's UTF-16 units, little endian, in base64url: for runtimes without `node:crypto`, which
 * is ten to twenty times faster.
 */
export function sha256(text: string): string {
  const words = padded(text)
  const schedule = new Int32Array(64)
  const state = Int32Array.from(START)
  for (let block = 0; block < words.length; block += 16) {
    for (let i = 0; i < 64; i++) {
      if (i < 16) schedule[i] = words[block + i]
      else {
        const early = schedule[i - 15]
        const late = schedule[i - 2]
        const mixed =
          (turn(early, 7) ^ turn(early, 18) ^ (early >>> 3)) + (turn(late, 17) ^ turn(late, 19) ^ (late >>> 10))
        schedule[i] = mixed + schedule[i - 16] + schedule[i - 7]
      }
    }
    compress(state, schedule)
  }
  return base64url(state)
}

function compress(state: Int32Array, schedule: Int32Array): void {
  let [a, b, c, d, e, f, g, h] = state
  for (let i = 0; i < 64; i++) {
    const chosen = (e & f) ^ (~e & g)
    const first = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + chosen + ROUNDS[i] + schedule[i]) | 0
    const most = (a & b) ^ (a & c) ^ (b & c)
    const second = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + most) | 0
    h = g
    g = f
    f = e
    e = (d + first) | 0
    d = c
    c = b
    b = a
    a = (first + second) | 0
  }
  for (const [i, word] of [a, b, c, d, e, f, g, h].entries()) state[i] += word
}

/** The text as big-endian words, padded to whole blocks: a 1 bit after the text, its length in bits at the end. */
function padded(text: string): Int32Array {
  const words = new Int32Array(Math.ceil((text.length * 2 + 9) / 64) * 16)
  const put = (i: number, unit: number) => {
    const swapped = ((unit & 255) << 8) | (unit >>> 8)
    words[i >> 1] |= swapped << (i & 1 ? 0 : 16)
  }
  for (let i = 0; i < text.length; i++) put(i, text.charCodeAt(i))
  put(text.length, 0x80)
  words[words.length - 2] = text.length / 2 ** 28
  words[words.length - 1] = text.length << 4
  return words
}

function base64url(words: Int32Array): string {
  let text = ''
  for (let bit = 0; bit < 256; bit += 6) {
    const word = words[bit >> 5]
    const next = words[(bit >> 5) + 1] ?? 0
    const shift = bit & 31
    const six = shift <= 26 ? word >>> (26 - shift) : (word << (shift - 26)) | (next >>> (58 - shift))
    text += BASE64URL[six & 63]
  }
  return text
}

function turn(word: number, bits: number): number {
  return (word >>> bits) | (word << (32 - bits))
}

function fractions(numbers: readonly number[], power: number): number[] {
  return numbers.map(number => ((number ** power % 1) * 2 ** 32) | 0)
}

function firstPrimes(count: number): number[] {
  const primes: number[] = []
  for (let n = 2; primes.length < count; n++) if (primes.every(prime => n % prime !== 0)) primes.push(n)
  return primes
}

/** Longer keys are hashed, because every store and message would carry their full length. */
export const LONGEST_KEY = 200
/** Of a hash: '#' and 43 digits. */
const HASH_LENGTH = 44
const HASH_MARK = 35

// Not imported: this module also runs in runtimes without Node's modules.
const nodeCrypto = /* @__PURE__ */ globalThis.process?.getBuiltinModule?.('node:crypto')

/** '#' and the SHA-256 of a text's UTF-16 units, so that texts with different lone surrogates differ. */
export function hashOf(text: string): string {
  return `#${nodeCrypto?.createHash('sha256').update(Buffer.from(text, 'utf16le')).digest('base64url') ?? sha256(text)}`
}

/**
 * The text that stands for a key in memory: the key itself up to 200 characters, else its hash. A key that looks like a
 * hash is hashed too, so that no two keys collide.
 */
export function shortKey(key: string): string {
  const { length } = key
  // The length first: to read a character of a text takes V8 as long as all else here.
  const looksLikeHash = length === HASH_LENGTH && key.charCodeAt(0) === HASH_MARK
  return length <= LONGEST_KEY && !looksLikeHash ? key : hashOf(key)
}

/**
 * A text of so many random letters, at most 4096, 6 bits each, that nobody can guess. Not for the time while a program
 * loads: some runtimes have no randomness then.
 */
export function randomText(letters: number): string {
  if (pool === undefined || used + letters > POOL_BYTES) {
    pool ??= new Uint8Array(POOL_BYTES)
    crypto.getRandomValues(pool)
    used = 0
  }
  let text = ''
  for (const end = used + letters; used < end; used++) text += BASE64URL[pool[used] & 63]
  return text
}

/**
 * Generated for many texts at a time: calling the system's generator costs more than all other work for a lease of a
 * semaphore.
 */
const POOL_BYTES = 4096
let pool: Uint8Array<ArrayBuffer> | undefined
let used = POOL_BYTES

let id: string | undefined

/**
 * The name of this process among those that share a store. Generated on first use: some runtimes have no randomness
 * while a program loads.
 */
export function processId(): string {
  id ??= randomText(12)
  return id
}

/** V8 represents substrings of at least this length as references to the whole text. */
const SHORTEST_SLICE = 13

/**
 * A copy that keeps no other text alive. A key is often a substring of a header field: without the copy, each key would
 * keep the whole field in memory.
 */
export function ownCopy(text: string): string {
  // V8 joins into a new text, whereas a concatenation by + refers to both parts. A Buffer would take twice as long.
  return text.length < SHORTEST_SLICE ? text : [text.slice(0, 1), text.slice(1)].join('')
}
