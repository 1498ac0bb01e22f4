import { isIP } from 'node:net'
import { maskedAddress } from '../../../http/address/address.js'
import { hashOf, LONGEST_KEY, ownCopy } from '../../../limiter/core/short-key.js'

const LETTERS = new Map([...'nrtbvf'].map((letter, i) => [letter.charCodeAt(0), [10, 13, 9, 8, 11, 12][i]]))

/**
 * The text between two offsets as the client sent it: escapes by the server (`\"`, `\\`, `\n`, `\xe4`) are undone.
 *
 * Read as UTF-8, or byte by byte where it is not UTF-8, so that different junk stays different. Always a string of its
 * own: a slice would keep the whole block of the log alive.
 */
function textOf(bytes: Buffer, start: number, end: number): string {
  for (let i = start; i < end; i++) {
    if (bytes[i] === BACKSLASH) {
      const plain = unescaped(bytes.subarray(start, end))
      return decoded(plain, 0, plain.length)
    }
  }
  return decoded(bytes, start, end)
}

function decoded(bytes: Buffer, start: number, end: number): string {
  const text = bytes.toString('utf8', start, end)
  return text.includes('\ufffd') ? bytes.toString('latin1', start, end) : text
}

function unescaped(bytes: Buffer): Buffer {
  const plain = Buffer.alloc(bytes.length)
  let length = 0
  let i = 0
  while (i < bytes.length) {
    const escaped = bytes[i] === BACKSLASH ? bytes[i + 1] : undefined
    if (escaped === undefined) plain[length++] = bytes[i++]
    else if (escaped === 120 && hexPair(bytes, i + 2) >= 0) {
      plain[length++] = hexPair(bytes, i + 2)
      i += 4
    } else {
      plain[length++] = LETTERS.get(escaped) ?? escaped
      i += 2
    }
  }
  return plain.subarray(0, length)
}

function hexPair(bytes: Uint8Array, at: number): number {
  return at + 1 < bytes.length ? (hexDigit(bytes[at]) << 4) | hexDigit(bytes[at + 1]) : -1
}

function hexDigit(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48
  const letter = byte | 0x20
  return letter >= 97 && letter <= 102 ? letter - 87 : -1
}

const SLASH = 47
const TOKEN = new Set(Buffer.from("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"))

/** The method of a request line; undefined for other text, as when a client speaks TLS to a plain port. */
function methodOf(bytes: Buffer, start: number, end: number): string | undefined {
  const methodEnd = endOfMethod(bytes, start, end)
  return methodEnd < 0 ? undefined : bytes.toString('latin1', start, methodEnd)
}

/**
 * The path of a request line without its query, as routes see it: `/search` for `GET /search?q=1 HTTP/1.1` and for
 * `GET http://host/search HTTP/1.1`; `*` for `OPTIONS *`. A space within the path belongs to it. undefined if there is
 * none.
 */
function pathOf(bytes: Buffer, start: number, end: number): string | undefined {
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

const ZERO = 48
const LENGTH = 27 // 17/May/2015:10:05:03 +0000 and the bracket that closes it

const MONTHS = new Map(
  ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'].map((name, month) => [
    (name.charCodeAt(0) << 16) | (name.charCodeAt(1) << 8) | name.charCodeAt(2),
    month,
  ]),
)
const DAYS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

/**
 * The moment written at `at`, as `17/May/2015:10:05:03 +0200]`, in whole seconds since the epoch; −1 if it is none.
 *
 * Years from 1971 to 2199: nothing was logged in others, and what is sorted by these seconds must fit beside a sequence
 * number in 53 bits.
 */
export function readLogTime(bytes: Uint8Array, at: number, end: number): number {
  if (end - at < LENGTH) return -1
  if (bytes[at + 2] !== 47 || bytes[at + 6] !== 47 || bytes[at + 11] !== 58 || bytes[at + 14] !== 58) return -1
  if (bytes[at + 17] !== 58 || bytes[at + 20] !== 32 || bytes[at + 26] !== 93) return -1
  const month = MONTHS.get((bytes[at + 3] << 16) | (bytes[at + 4] << 8) | bytes[at + 5])
  const day = twoDigits(bytes, at)
  const year = twoDigits(bytes, at + 7) * 100 + twoDigits(bytes, at + 9)
  const hour = twoDigits(bytes, at + 12)
  const minute = twoDigits(bytes, at + 15)
  const second = twoDigits(bytes, at + 18)
  const zone = readZone(bytes, at + 21)
  // Written so that NaN, which stands for "no digit", fails as well. A leap second is the first one of the next minute.
  if (month === undefined || !(day >= 1 && day <= DAYS[month] && year >= 1971 && year <= 2199)) return -1
  if (!(hour <= 23 && minute <= 59 && second <= 60 && Math.abs(zone) < 86_400)) return -1
  if (month === 1 && day === 29 && !isLeap(year)) return -1
  return daysSinceEpoch(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - zone
}

function readZone(bytes: Uint8Array, at: number): number {
  const size = twoDigits(bytes, at + 1) * 3600 + twoDigits(bytes, at + 3) * 60
  if (bytes[at] === 43) return size
  return bytes[at] === 45 ? -size : Number.NaN
}

function twoDigits(bytes: Uint8Array, at: number): number {
  const tens = bytes[at] - ZERO
  const ones = bytes[at + 1] - ZERO
  return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? tens * 10 + ones : Number.NaN
}

function isLeap(year: number): boolean {
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
}

// Howard Hinnant, "chrono-compatible low-level date algorithms": years begin in March, so that the leap day comes last.
function daysSinceEpoch(year: number, month: number, day: number): number {
  const shifted = month < 2 ? year - 1 : year
  const dayOfYear = Math.floor((153 * ((month + 10) % 12) + 2) / 5) + day - 1
  return (
    shifted * 365 +
    Math.floor(shifted / 4) -
    Math.floor(shifted / 100) +
    Math.floor(shifted / 400) +
    dayOfYear -
    719_468
  )
}

const SPACE = 32
const QUOTE = 34
const DASH = 45
const COLON = 58
const BRACKET = 91
const BACKSLASH = 92

/**
 * One line of an access log in common or combined format, also with a virtual host before it (Apache's vhost_combined):
 *
 *     client ident user [17/May/2015:10:05:03 +0000] "GET /path HTTP/1.1" 200 512 "referer" "agent"
 *     host:port client ident user [17/May/2015:10:05:03 +0000] "GET /path HTTP/1.1" 200 512 "referer" "agent"
 *
 * `read` finds the parts; a part is only decoded on request, because a replay needs one. One object serves
 * all lines, and is valid until the next `read`. It scans bytes: one regular expression for the whole line took 2.5
 * times as long.
 */
export class AccessLogLine {
  /** Whole seconds since the epoch; the format has no finer ones. */
  second = 0
  /** Whether a virtual host stands before the client. */
  hasHost = false
  #bytes: Buffer = Buffer.alloc(0)
  #start = 0
  #end = 0
  #clientEnd = 0
  #userStart = 0
  #timeStart = 0
  #requestStart = 0
  #requestEnd = 0
  #sizeEnd = 0

  /**
   * Whether the bytes from `start` to `end` are such a line. Client, time, request, status and size are required; what
   * follows may be anything, because a line that was cut off in the agent still describes a request.
   */
  read(bytes: Buffer, start: number, end: number): boolean {
    this.#bytes = bytes
    // A byte order mark stands before the first line of a file, so also within files that were joined.
    const isMarked = bytes[start] === 0xef && bytes[start + 1] === 0xbb && bytes[start + 2] === 0xbf
    this.#start = isMarked ? start + 3 : start
    this.#end = end
    return this.#readClient() && this.#readTime() && this.#readRequest()
  }

  /** The address or host name of the client. */
  client(): string | undefined {
    return this.#isDash(this.#start, this.#clientEnd)
      ? undefined
      : this.#bytes.toString('latin1', this.#start, this.#clientEnd)
  }

  /** The authenticated name of the client; undefined if there is none. It may contain spaces. */
  user(): string | undefined {
    const end = this.#timeStart - 2
    if (this.#isDash(this.#userStart, end)) return undefined
    const user = textOf(this.#bytes, this.#userStart, end)
    return user === '""' ? undefined : user
  }

  method(): string | undefined {
    return methodOf(this.#bytes, this.#requestStart, this.#requestEnd)
  }

  path(): string | undefined {
    return pathOf(this.#bytes, this.#requestStart, this.#requestEnd)
  }

  /** The text after the referer; undefined in common format and for clients without an agent. */
  agent(): string | undefined {
    const referer = this.#sizeEnd + 1
    if (referer >= this.#end || this.#bytes[referer] !== QUOTE) return undefined
    const start = this.#endOfQuoted(referer + 1) + 3
    if (start > this.#end || this.#bytes[start - 1] !== QUOTE) return undefined
    const end = this.#endOfQuoted(start)
    return end === start || this.#isDash(start, end) ? undefined : textOf(this.#bytes, start, end)
  }

  #readClient(): boolean {
    this.#clientEnd = this.#endOfWord(this.#start)
    this.hasHost = this.#clientEnd > 0 && this.#isHost(this.#start, this.#clientEnd)
    if (this.hasHost) {
      this.#start = this.#clientEnd + 1
      this.#clientEnd = this.#endOfWord(this.#start)
    }
    return this.#clientEnd > 0
  }

  /**
   * Whether the first word is a virtual host: an address follows, or a name after a host with a port, and then the two
   * words of every line. A client is followed by the ident instead, which is a dash on all servers but very old ones.
   */
  #isHost(start: number, end: number): boolean {
    const next = end + 1
    if (this.#bytes[next] === DASH) return false
    const nextEnd = this.#endOfWord(next)
    const identEnd = this.#endOfWord(nextEnd + 1)
    if (nextEnd < 0 || identEnd < 0 || this.#bytes[identEnd + 1] === BRACKET) return false
    if (isIP(this.#bytes.toString('latin1', next, nextEnd)) !== 0) return true
    return this.#hasPort(start, end) && this.#isDash(nextEnd + 1, identEnd)
  }

  /** As 'example.com:443'; an address of IPv6 has more colons. */
  #hasPort(start: number, end: number): boolean {
    const colon = this.#bytes.indexOf(COLON, start)
    return colon > start && colon < end - 1 && this.#endOfDigits(colon + 1) === end
  }

  /**
   * The space behind a word; −1 if there is none. Addresses and host names contain no other bytes, but binary junk
   * does.
   */
  #endOfWord(start: number): number {
    let at = start
    while (at < this.#end && this.#bytes[at] > SPACE && this.#bytes[at] < 127) at++
    return at > start && at < this.#end && this.#bytes[at] === SPACE ? at : -1
  }

  /** The user ends at the first time, because the client controls all that follows. */
  #readTime(): boolean {
    let at = this.#clientEnd + 1
    while (at < this.#end && this.#bytes[at] !== SPACE) at++
    this.#userStart = at + 1
    for (at += 3; at < this.#end; at++) {
      if (this.#bytes[at] !== BRACKET || this.#bytes[at - 1] !== SPACE) continue
      this.second = readLogTime(this.#bytes, at + 1, this.#end)
      if (this.second < 0) continue
      this.#timeStart = at + 1
      return true
    }
    return false
  }

  /**
   * The request ends at the first bare quote with a status and a size behind it: some servers do not escape the quotes
   * that clients send.
   */
  #readRequest(): boolean {
    const start = this.#timeStart + 29
    if (this.#bytes[start - 1] !== QUOTE || this.#bytes[start - 2] !== SPACE) return false
    this.#requestStart = start
    for (let at = start; at < this.#end; at++) {
      if (this.#bytes[at] === BACKSLASH) at++
      else if (this.#bytes[at] === QUOTE && this.#readResponse(at + 1)) {
        this.#requestEnd = at
        return true
      }
    }
    return false
  }

  #readResponse(at: number): boolean {
    const statusEnd = this.#endOfNumber(at)
    if (statusEnd < 0 || (statusEnd !== at + 4 && this.#bytes[at + 1] !== DASH)) return false
    this.#sizeEnd = this.#endOfNumber(statusEnd)
    return this.#sizeEnd > 0
  }

  /** Behind a space and digits, or a space and a dash; −1 if something else is there. */
  #endOfNumber(at: number): number {
    if (at + 1 >= this.#end || this.#bytes[at] !== SPACE) return -1
    let end = at + 1
    if (this.#bytes[end] === DASH) end++
    else end = this.#endOfDigits(end)
    return end > at + 1 && (end >= this.#end || this.#bytes[end] === SPACE) ? end : -1
  }

  #endOfDigits(from: number): number {
    let end = from
    while (end < this.#end && this.#bytes[end] >= 48 && this.#bytes[end] <= 57) end++
    return end
  }

  #endOfQuoted(from: number): number {
    for (let at = from; at < this.#end; at++) {
      if (this.#bytes[at] === BACKSLASH) at++
      else if (this.#bytes[at] === QUOTE) return at
    }
    return this.#end
  }

  #isDash(start: number, end: number): boolean {
    return end - start === 1 && this.#bytes[start] === DASH
  }
}

/** The name of the key by which requests are counted. */
export type Subject = 'ip' | 'path' | 'method' | 'user' | 'agent'

export const SUBJECTS: readonly Subject[] = ['ip', 'path', 'method', 'user', 'agent']

/** The key of a line; undefined if it has none, so that no limit applies. */
export type KeyOfLine = (line: AccessLogLine) => string | undefined

/** The visible part of a long key. Together with its hash it is longer than any key that is not shortened. */
const SHOWN_CHARACTERS = 160

/**
 * Addresses become keys exactly as in the middleware. Of a key longer than 200 characters the first 160 and a hash of
 * the whole are kept, so that a log of many long paths takes no more memory than one of short ones.
 */
export function keyOfLine(subject: Subject, ipv6Subnet: number | false): KeyOfLine {
  const keyOf = wholeKeyOf(subject, ipv6Subnet)
  return line => {
    const key = keyOf(line)
    return key === undefined || key.length <= LONGEST_KEY ? key : shortened(key)
  }
}

function shortened(key: string): string {
  return `${ownCopy(key.slice(0, SHOWN_CHARACTERS))}...${hashOf(key)}`
}

function wholeKeyOf(subject: Subject, ipv6Subnet: number | false): KeyOfLine {
  switch (subject) {
    case 'ip':
      return line => {
        const client = line.client()
        return client === undefined ? undefined : maskedAddress(client, ipv6Subnet)
      }
    case 'path':
      return line => line.path()
    case 'method':
      return line => line.method()
    case 'user':
      return line => line.user()
    case 'agent':
      return line => line.agent()
  }
}
