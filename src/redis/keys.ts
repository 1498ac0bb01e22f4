import { keySegment } from '../limiter/core/key-segment.js'
import { getOrMake } from '../limiter/core/maps.js'
import { checkText } from '../limiter/core/options.js'

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

/**
 * The beginning of all keys of one shared object: `prefix:{name}:kind`. The hash tag keeps them in one slot of a
 * cluster. Throws `PolicyError` for a name or a prefix that is not a text, or empty; `user` names the class.
 */
export function keyRoot(user: string, kind: string, name: string, prefix = 'spillway'): string {
  checkText(name, `${user}: name`, 'jobs')
  checkText(prefix, `${user}: prefix`, 'spillway')
  return `${keySegment(prefix)}:{${keySegment(name)}}:${kind}`
}
