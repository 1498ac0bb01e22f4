import { getOrMake } from '../limiter/core/maps.js'
import { checkText } from '../limiter/core/options.js'
import { hashOf, LONGEST_KEY } from '../limiter/core/short-key.js'

const TABLE = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1
  return crc
})

/** CRC16 (XMODEM) of the text's UTF-8: the checksum by which a Redis cluster distributes keys. 0 to 65535. */
export function crc16(text: string): number {
  let crc = 0
  for (const byte of new TextEncoder().encode(text)) crc = nextCrc16(crc, byte)
  return crc
}

/** The checksum of a text after one more byte. */
function nextCrc16(crc: number, byte: number): number {
  return ((crc << 8) & 0xffff) ^ TABLE[(crc >> 8) ^ byte]
}

/** The cluster slot of a key, 0 to 16383: by its hash tag, if it has one that is not empty. */
export function slotOf(key: string): number {
  const open = key.indexOf('{')
  const close = open < 0 ? -1 : key.indexOf('}', open + 1)
  return crc16(close > open + 1 ? key.slice(open + 1, close) : key) % 16_384
}

const SLOTS = 16_384
const DIGIT_ZERO = 48

const TAGS = new Map<number, readonly string[]>()

/**
 * `count` hash tags, short numbers, whose slots are evenly spaced. When the slots of a cluster are split evenly, in
 * runs, any two nodes get equal numbers of tags or differ by one: for every number of nodes if `count` is a power of
 * two, else up to 25 nodes. The search takes about 10 ms the first time.
 */
export function evenTags(count: number): readonly string[] {
  return getOrMake(TAGS, count, () => findTags(count))
}

function findTags(count: number): string[] {
  const places = new Map<number, number>()
  // In the middle of each part, so that a boundary between nodes that is off by one slot moves no tag.
  for (let i = 0; i < count; i++) places.set(Math.floor(((i + 0.5) * SLOTS) / count), i)
  const tags = new Array<string>(count)
  const sums: number[] = []
  for (let number = 0; places.size > 0; number++) {
    const start = number < 10 ? 0 : sums[Math.floor(number / 10)]
    sums.push(nextCrc16(start, DIGIT_ZERO + (number % 10)))
    const slot = sums[number] % SLOTS
    const place = places.get(slot)
    if (place === undefined) continue
    tags[place] = String(number)
    places.delete(slot)
  }
  return tags
}

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

/**
 * The beginning of all keys of one shared object: `prefix:{name}:kind`. The hash tag keeps them in one slot of a
 * cluster. Throws `PolicyError` for a name or a prefix that is not a text, or empty; `user` names the class.
 */
export function keyRoot(user: string, kind: string, name: string, prefix = 'spillway'): string {
  checkText(name, `${user}: name`, 'jobs')
  checkText(prefix, `${user}: prefix`, 'spillway')
  return `${keySegment(prefix)}:{${keySegment(name)}}:${kind}`
}
