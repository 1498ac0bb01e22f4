const TABLE = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1
  return crc
})

/** CRC16 (XMODEM) of the text's UTF-8: the checksum by which a Redis cluster distributes keys. 0 to 65535. */
export function crc16(text: string): number {
  let crc = 0
  for (const byte of Buffer.from(text)) crc = nextCrc16(crc, byte)
  return crc
}

/** The checksum of a text after one more byte. */
export function nextCrc16(crc: number, byte: number): number {
  return ((crc << 8) & 0xffff) ^ TABLE[(crc >> 8) ^ byte]
}
