import { hashOf, LONGEST_KEY } from './short-key.js'

const PLAIN = /^[A-Za-z0-9_.@/~ -]+$/
const PLAIN_CLIENT = /^[A-Za-z0-9_.@/~ :-]+$/
const SPECIAL = /[%{}:#\p{Cc}\p{Cs}]/gu
const SPECIAL_CLIENT = /[%{}#\p{Cc}\p{Cs}]/gu

/**
 * A name as one segment of a Redis key. Different names give different segments, and none contains a brace or a colon:
 * braces would change the hash tag of a cluster, and a colon would make one client's key look like another's. A lone
 * surrogate is escaped too, because UTF-8 cannot represent it and two such names would collide.
 */
export function keySegment(name: string): string {
  return segment(name, PLAIN, SPECIAL)
}

/**
 * As `keySegment`, but keeps colons, which many keys have: for the one segment of a key inside braces, or before a
 * fixed number of segments without colons.
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

/** The name that a segment stands for; of one that is too long, its hash. */
export function segmentText(segment: string): string {
  if (segment === '%') return ''
  return segment.replace(/%u([0-9a-f]{4})|%([0-9a-f]{2})/g, (_, wide?: string, narrow?: string) =>
    String.fromCharCode(Number.parseInt(wide ?? narrow ?? '', 16)),
  )
}
