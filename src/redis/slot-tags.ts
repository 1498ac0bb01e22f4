import { getOrMake } from '../core/get-or-make.js'
import { nextCrc16 } from './crc16.js'

const SLOTS = 16_384
const DIGIT_ZERO = 48

const TAGS = new Map<number, readonly string[]>()

/**
 * `count` hash tags, short numbers, whose slots are evenly spaced. When the slots of a cluster are split evenly, in runs, any two nodes
 * get equal numbers of tags or differ by one: for every number of nodes if `count` is a power of two, else up to 25 nodes. The search takes about
 * 10 ms the first time.
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
