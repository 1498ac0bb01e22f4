/** A message as Redis stores it: see `record` in lua/waiting/queue/queues.lua for its head. */
export interface QueueRecord {
  readonly hasTtl: boolean
  readonly maxAttempts: number
  readonly headers: Readonly<Record<string, string>>
  readonly payload: string
}

const VERSION = '1'
const HEAD = { ttl: 22, max: 37, end: 44 }
const NO_HEADERS: Readonly<Record<string, string>> = Object.freeze({})

/** The part of the head that the process writes; a script adds the rest. */
export function maxAttemptsText(maxAttempts: number): string {
  return String(maxAttempts).padStart(7, '0')
}

/** The part after the head: headers as JSON on one line, then the payload. */
export function recordBody(headers: Readonly<Record<string, string>> | undefined, payload: string): string {
  return `${headers === undefined ? '' : JSON.stringify(headers)}\n${payload}`
}

/** Throws for a text that is not a record of this version. */
export function parseRecord(text: string): QueueRecord {
  const line = text.indexOf('\n', HEAD.end)
  if (text[0] !== VERSION || line < 0) throw new TypeError(`${JSON.stringify(text.slice(0, HEAD.end))} is no record`)
  const headers = text.slice(HEAD.end, line)
  return {
    hasTtl: Number(text.slice(HEAD.ttl, HEAD.max)) > 0,
    maxAttempts: Number(text.slice(HEAD.max, HEAD.end)),
    headers: headers === '' ? NO_HEADERS : Object.freeze(JSON.parse(headers)),
    payload: text.slice(line + 1),
  }
}

/** Replaces a record that cannot be read, so that its delivery can be rejected. */
export const NO_RECORD: QueueRecord = { hasTtl: true, maxAttempts: 1, headers: NO_HEADERS, payload: '' }

/** The id in a receipt, and the attempts that count: see `keys` in lua/waiting/queue/queues.lua. */
export function parseReceipt(receipt: string): { id: string; attempts: number } {
  return { id: receipt.slice(34), attempts: Number(receipt.slice(27, 34)) }
}

/** The receipt of a delivery after its attempt has begun. */
export function begunReceipt(receipt: string): string {
  const { attempts } = parseReceipt(receipt)
  return `${receipt.slice(0, 27)}${maxAttemptsText(attempts + 1)}${receipt.slice(34)}`
}

/** The keys of a queue, in the order that all its scripts expect: see `keys` in lua/waiting/queue/queues.lua. */
export function queueKeys(base: string): readonly string[] {
  return ['delayed', 'unacked', 'messages', 'tries', 'ttls', 'dead', 'graves', 'wake', 'cleared', 'clock'].map(
    part => `${base}:${part}`,
  )
}

/** The index of the key on which idle processes block. */
export const WAKE = 7
/** The index of the key of the queue's clock and version. */
export const CLOCK = 9

const LONGEST_REASON = 1000

/** The reason in a dead letter: at most 1000 characters. */
export function reasonOf(text: string): string {
  return text.slice(0, LONGEST_REASON)
}

/** The text of any thrown value. Never throws. */
export function textOf(error: unknown): string {
  try {
    if (error instanceof Error) return `${error.name}: ${error.message}`
    return error === undefined ? 'no reason was given' : String(error)
  } catch {
    return 'an error without a text'
  }
}
