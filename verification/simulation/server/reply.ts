// What the server says. Texts are bytes: one character for each, as Buffer calls them latin1.

/** +OK */
export class Status {
  constructor(readonly text: string) {}
}

/** -ERR … */
export class Failure {
  constructor(readonly text: string) {}
}

/** A number is an integer, a string is a bulk. */
export type Reply = number | string | null | Status | Failure | readonly Reply[]

export const OK = new Status('OK')
export const WRONG_TYPE = new Failure('WRONGTYPE Operation against a key holding the wrong kind of value')

/** As printf %.17g writes it: so Redis 7.0 writes scores, and Lua's numbers as arguments. */
export function decimal(value: number): string {
  if (Number.isInteger(value) && Math.abs(value) < 1e17) return Object.is(value, -0) ? '-0' : String(value)
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'nan' : value > 0 ? 'inf' : '-inf'
  const exponent = Number(value.toExponential(16).split('e')[1])
  if (exponent >= -4 && exponent < 17) {
    const text = value.toFixed(Math.min(100, 16 - exponent))
    return text.includes('.') ? text.replace(/\.?0+$/, '') : text
  }
  const [digits, power] = value.toExponential(16).split('e')
  const sign = power.startsWith('-') ? '-' : '+'
  return `${digits.includes('.') ? digits.replace(/\.?0+$/, '') : digits}e${sign}${power.slice(1).padStart(2, '0')}`
}

/** As a client receives it, in RESP 2. */
export function encoded(reply: Reply): string {
  if (typeof reply === 'string') return `$${reply.length}\r\n${reply}\r\n`
  if (typeof reply === 'number') return `:${reply}\r\n`
  if (reply === null) return '$-1\r\n'
  if (reply instanceof Status) return `+${reply.text}\r\n`
  if (reply instanceof Failure) return `-${reply.text}\r\n`
  return `*${reply.length}\r\n${reply.map(encoded).join('')}`
}

/** As the answers of two servers are compared: texts of bytes, errors by what they say. */
export function plain(reply: unknown): unknown {
  if (reply instanceof Status) return reply.text
  if (reply instanceof Failure) return `error: ${reply.text.split(' script: ')[0]}`
  if (reply instanceof Error) return `error: ${reply.message.split(' script: ')[0]}`
  if (Buffer.isBuffer(reply)) return reply.toString('latin1')
  return Array.isArray(reply) ? reply.map(plain) : reply
}
