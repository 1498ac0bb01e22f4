import { sha256 } from './sha256.js'

/** Longer keys are hashed, because every store and message would carry their full length. */
export const LONGEST_KEY = 200
/** Of a hash: '#' and 43 digits. */
const HASH_LENGTH = 44
const HASH_MARK = 35

// Not imported: this module also runs in runtimes without Node's modules.
const crypto = globalThis.process?.getBuiltinModule?.('node:crypto')

/** '#' and the SHA-256 of a text's UTF-16 units, so that texts with different lone surrogates differ. */
export function hashOf(text: string): string {
  return `#${crypto?.createHash('sha256').update(Buffer.from(text, 'utf16le')).digest('base64url') ?? sha256(text)}`
}

/**
 * The text that stands for a key in memory: the key itself up to 200 characters, else its hash. A key that looks like a hash is
 * hashed too, so that no two keys collide.
 */
export function shortKey(key: string): string {
  const { length } = key
  // The length first: to read a character of a text takes V8 as long as all else here.
  const looksLikeHash = length === HASH_LENGTH && key.charCodeAt(0) === HASH_MARK
  return length <= LONGEST_KEY && !looksLikeHash ? key : hashOf(key)
}

/** V8 represents substrings of at least this length as references to the whole text. */
const SHORTEST_SLICE = 13

/**
 * A copy that keeps no other text alive. A key is often a substring of a header field: without the copy, each key would keep the whole
 * field in memory.
 */
export function ownCopy(text: string): string {
  // V8 joins into a new text, whereas a concatenation by + refers to both parts. A Buffer would take twice as long.
  return text.length < SHORTEST_SLICE ? text : [text.slice(0, 1), text.slice(1)].join('')
}
