import { crc16 } from './crc16.js'

/** The cluster slot of a key, 0 to 16383: by its hash tag, if it has one that is not empty. */
export function slotOf(key: string): number {
  const open = key.indexOf('{')
  const close = open < 0 ? -1 : key.indexOf('}', open + 1)
  return crc16(close > open + 1 ? key.slice(open + 1, close) : key) % 16_384
}
