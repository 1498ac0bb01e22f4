/**
 * The cluster slot of a key: CRC16 (XMODEM) of its hash tag, or of all of it, modulo 16384. As in the Redis cluster
 * specification.
 */
export function slotOf(key: string): number {
  const open = key.indexOf('{')
  const close = open < 0 ? -1 : key.indexOf('}', open + 1)
  const tag = close > open + 1 ? key.slice(open + 1, close) : key
  let crc = 0
  for (const byte of Buffer.from(tag)) crc = ((crc << 8) & 0xffff) ^ TABLE[(crc >> 8) ^ byte]
  return crc & 16383
}

const TABLE = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1
  return crc
})
