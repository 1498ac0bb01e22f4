import { textOf } from './log-text.js'

const SPACE = 32
const SLASH = 47
const TOKEN = new Set(Buffer.from("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"))

/** The method of a request line; undefined for other text, as when a client speaks TLS to a plain port. */
export function methodOf(bytes: Buffer, start: number, end: number): string | undefined {
  const methodEnd = endOfMethod(bytes, start, end)
  return methodEnd < 0 ? undefined : bytes.toString('latin1', start, methodEnd)
}

/**
 * The path of a request line without its query, as routes see it: `/search` for `GET /search?q=1 HTTP/1.1` and for
 * `GET http://host/search HTTP/1.1`; `*` for `OPTIONS *`. A space within the path belongs to it. undefined if there is none.
 */
export function pathOf(bytes: Buffer, start: number, end: number): string | undefined {
  const methodEnd = endOfMethod(bytes, start, end)
  if (methodEnd < 0) return undefined
  const from = methodEnd + 1
  const to = endOfTarget(bytes, from, end)
  if (to <= from) return undefined
  if (bytes[from] === SLASH) return textOf(bytes, from, endOfPath(bytes, from, to))
  if (to - from === 1 && bytes[from] === 42) return '*'
  return pathOfUrl(bytes, from, to)
}

/** RFC 9112, section 3.2.2: a proxy is sent the whole URL. */
function pathOfUrl(bytes: Buffer, from: number, to: number): string | undefined {
  const end = endOfPath(bytes, from, to)
  for (let i = from; i + 2 < end; i++) {
    if (bytes[i] !== 58 || bytes[i + 1] !== SLASH || bytes[i + 2] !== SLASH) continue
    const slash = bytes.indexOf(SLASH, i + 3)
    return slash < 0 || slash >= end ? '/' : textOf(bytes, slash, end)
  }
  return undefined
}

/** The end of the method, if the text begins with a method and a target; else −1. */
function endOfMethod(bytes: Buffer, start: number, end: number): number {
  let at = start
  while (at < end && TOKEN.has(bytes[at])) at++
  return at > start && at + 1 < end && bytes[at] === SPACE ? at : -1
}

/** The end of the target: before the last ` HTTP/`, which HTTP/0.9 lacks. */
function endOfTarget(bytes: Buffer, from: number, end: number): number {
  for (let i = end - 6; i >= from; i--) {
    if (bytes[i] === SPACE && bytes[i + 1] === 72 && bytes.toString('latin1', i + 1, i + 6) === 'HTTP/') return i
  }
  return end
}

function endOfPath(bytes: Buffer, from: number, to: number): number {
  for (let i = from; i < to; i++) if (bytes[i] === 63 || bytes[i] === 35) return i
  return to
}
