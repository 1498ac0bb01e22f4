// The two libraries of Redis's Lua that scripts use: struct (a few formats) and cmsgpack. Bytes are texts of latin1.

const buffer = Buffer.alloc(16)

interface Field {
  readonly little: boolean
  readonly letter: string
  readonly bytes: number
}

const formats = new Map<string, readonly Field[]>()

/** The fields of a format of struct. */
function fieldsOf(format: string): readonly Field[] {
  const known = formats.get(format)
  if (known !== undefined) return known
  let little = true
  const fields: Field[] = []
  for (const [, sign, letter, size] of format.matchAll(/([<>=])|([A-Za-z])(\d*)/g)) {
    if (sign !== undefined) little = sign !== '>'
    else if (letter === 'd') fields.push({ little, letter, bytes: 8 })
    else if (letter === 'B' || letter === 'b') fields.push({ little, letter, bytes: 1 })
    else if (letter === 'I' || letter === 'i') fields.push({ little, letter, bytes: Number(size || 4) })
    else throw new Error(`struct: the format ${format} is not known here`)
  }
  formats.set(format, fields)
  return fields
}

export function structPack(format: string, values: readonly number[]): string {
  let text = ''
  let next = 0
  for (const { little, letter, bytes } of fieldsOf(format)) {
    const value = values[next++]
    if (letter === 'd') little ? buffer.writeDoubleLE(value) : buffer.writeDoubleBE(value)
    else {
      const whole = BigInt.asUintN(8 * bytes, BigInt(Math.trunc(value)))
      little ? buffer.writeBigUInt64LE(whole) : buffer.writeBigUInt64BE(whole << BigInt(8 * (8 - bytes)))
    }
    text += buffer.toString('latin1', 0, bytes)
  }
  return text
}

/** The values, and then the place behind them, from 1. Undefined if the text is too short. */
export function structUnpack(format: string, text: string, from = 1): number[] | undefined {
  const values: number[] = []
  let at = from - 1
  for (const { little, letter, bytes } of fieldsOf(format)) {
    if (text.length < at + bytes) return undefined
    buffer.fill(0)
    if (letter === 'd') {
      buffer.write(text.slice(at, at + 8), 'latin1')
      values.push(little ? buffer.readDoubleLE() : buffer.readDoubleBE())
    } else {
      buffer.write(text.slice(at, at + bytes), little ? 0 : 8 - bytes, 'latin1')
      const whole = little ? buffer.readBigUInt64LE() : buffer.readBigUInt64BE()
      values.push(Number(letter === letter.toUpperCase() ? whole : BigInt.asIntN(8 * bytes, whole)))
    }
    at += bytes
  }
  return [...values, at + 1]
}

/** What Lua packs: a table is an array if its keys are 1 to n, else a map of pairs. */
export type Packed = null | boolean | number | string | readonly Packed[] | ReadonlyMap<Packed, Packed>

const bytes = (...numbers: number[]) => String.fromCharCode(...numbers)

function uint(width: 1 | 2 | 4 | 8, value: number): string {
  buffer.writeBigUInt64BE(BigInt.asUintN(64, BigInt(value)))
  return buffer.toString('latin1', 8 - width, 8)
}

function double(value: number): string {
  buffer.writeDoubleBE(value)
  return buffer.toString('latin1', 0, 8)
}

/**
 * The head of a text, an array or a map: the letter for short ones with the length in it, then those for wider lengths.
 */
function head(length: number, short: number, mostShort: number, wide: readonly (1 | 2 | 4)[], letter: number): string {
  if (length <= mostShort) return bytes(short | length)
  const at = wide.findIndex(width => length < 256 ** width)
  return bytes(letter + at) + uint(wide[at], length)
}

function packedNumber(value: number): string {
  if (!Number.isInteger(value) || Math.abs(value) >= 2 ** 63) {
    if (Math.fround(value) !== value) return `\xcb${double(value)}`
    buffer.writeFloatBE(value)
    return `\xca${buffer.toString('latin1', 0, 4)}`
  }
  if (value >= 0) {
    if (value <= 127) return bytes(value)
    for (const [i, width] of ([1, 2, 4, 8] as const).entries()) {
      if (value < 256 ** width) return bytes(0xcc + i) + uint(width, value)
    }
  }
  if (value >= -32) return bytes(256 + value)
  for (const [i, width] of ([1, 2, 4] as const).entries()) {
    if (value >= -(256 ** width) / 2) return bytes(0xd0 + i) + uint(width, value)
  }
  return `\xd3${uint(8, value)}`
}

export function msgpack(value: Packed): string {
  if (value === null) return '\xc0'
  if (typeof value === 'boolean') return value ? '\xc3' : '\xc2'
  if (typeof value === 'number') return packedNumber(value)
  if (typeof value === 'string') return head(value.length, 0xa0, 31, [1, 2, 4], 0xd9) + value
  if (value instanceof Map) {
    const pairs = [...value].map(([key, one]) => msgpack(key) + msgpack(one))
    return head(pairs.length, 0x80, 15, [2, 4], 0xde) + pairs.join('')
  }
  const list = value as readonly Packed[]
  return head(list.length, 0x90, 15, [2, 4], 0xdc) + list.map(msgpack).join('')
}

export function msgunpack(text: string): Packed {
  let at = 0
  const number = (width: number, signed = false) => {
    let value = 0n
    for (let i = 0; i < width; i++) value = (value << 8n) | BigInt(text.charCodeAt(at++))
    return Number(signed ? BigInt.asIntN(8 * width, value) : value)
  }
  const string = (length: number) => {
    at += length
    return text.slice(at - length, at)
  }
  const list = (length: number): Packed => Array.from({ length }, () => next())
  const map = (length: number): Packed => new Map(Array.from({ length }, () => [next(), next()] as const))
  const next = (): Packed => {
    const code = text.charCodeAt(at++)
    if (code < 0x80) return code
    if (code < 0x90) return map(code & 15)
    if (code < 0xa0) return list(code & 15)
    if (code < 0xc0) return string(code & 31)
    if (code >= 0xe0) return code - 256
    if (code === 0xc0) return null
    if (code === 0xc2 || code === 0xc3) return code === 0xc3
    if (code === 0xca) return Buffer.from(string(4), 'latin1').readFloatBE()
    if (code === 0xcb) return Buffer.from(string(8), 'latin1').readDoubleBE()
    if (code >= 0xcc && code <= 0xcf) return number(2 ** (code - 0xcc))
    if (code >= 0xd0 && code <= 0xd3) return number(2 ** (code - 0xd0), true)
    if (code >= 0xd9 && code <= 0xdb) return string(number(2 ** (code - 0xd9)))
    if (code === 0xdc || code === 0xdd) return list(number(code === 0xdc ? 2 : 4))
    if (code === 0xde || code === 0xdf) return map(number(code === 0xde ? 2 : 4))
    throw new Error(`msgpack: the byte ${code} is not known here`)
  }
  return next()
}
