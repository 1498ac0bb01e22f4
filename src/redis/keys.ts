import { hashOf, LONGEST_KEY } from '../core/short-key.js'

const PLAIN = /^[A-Za-z0-9_.@/~ -]+$/
const PLAIN_CLIENT = /^[A-Za-z0-9_.@/~ :-]+$/
const SPECIAL = /[%{}:#\p{Cc}\p{Cs}]/gu
const SPECIAL_CLIENT = /[%{}#\p{Cc}\p{Cs}]/gu

/**
 * A name as one segment of a Redis key. No two names give the same segment, and none holds a brace or a colon: braces would
 * move the hash tag of a cluster, a colon would let one client's key look like another's. A lone surrogate is escaped too,
 * because UTF-8 has no room for it and two of them would meet.
 */
export function keySegment(name: string): string {
  return segment(name, PLAIN, SPECIAL)
}

/**
 * As `keySegment`, but with its colons, which many keys have: for the one segment of a key that stands in braces, or before a known
 * number of segments that have none.
 */
export function clientSegment(name: string): string {
  return segment(name, PLAIN_CLIENT, SPECIAL_CLIENT)
}

function segment(name: string, plain: RegExp, special: RegExp): string {
  if (name.length <= LONGEST_KEY && plain.test(name)) return name
  if (name === '') return '%'
  if (name.length > LONGEST_KEY) return hashOf(name)
  return name.replace(special, escapeUnit)
}

function escapeUnit(unit: string): string {
  const code = unit.charCodeAt(0)
  return code < 256 ? `%${code.toString(16).padStart(2, '0')}` : `%u${code.toString(16)}`
}
