import { sha256 } from './sha256.js'

/** Longer keys are hashed: nobody needs to read them, and everybody would pay for them. */
export const LONGEST_KEY = 200
const HASH_MARK = 35

// Not imported: this module also runs where there is nothing of Node.
const crypto = globalThis.process?.getBuiltinModule?.('node:crypto')

/** '#' and the SHA-256 of a text, by its UTF-16 units, so that lone surrogates count. */
export function hashOf(text: string): string {
  return `#${crypto?.createHash('sha256').update(Buffer.from(text, 'utf16le')).digest('base64url') ?? sha256(text)}`
}

/**
 * The text by which a key is kept in memory: the key itself up to 200 characters, else its hash. A key that looks like a hash is
 * hashed too, so that no two keys meet.
 */
export function shortKey(key: string): string {
  return key.length <= LONGEST_KEY && key.charCodeAt(0) !== HASH_MARK ? key : hashOf(key)
}

/** V8 keeps the whole of a text alive for a part of it that is at least so long. */
const SHORTEST_SLICE = 13

/**
 * A copy that keeps no other text alive. A key is often a part of a header field: kept as it is, each such key would cost the
 * length of the whole field.
 */
export function ownCopy(text: string): string {
  // V8 joins into a new text; it gives a concatenation by + a reference to both parts. A Buffer would take twice as long.
  return text.length < SHORTEST_SLICE ? text : [text.slice(0, 1), text.slice(1)].join('')
}
