import { isIP } from 'node:net'
import { textOf } from './log-text.js'
import { readLogTime } from './log-time.js'
import { methodOf, pathOf } from './request-line.js'

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
 * all lines, and is valid until the next `read`. It scans bytes: one regular expression for the whole line took 2.5 times as long.
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
   * Whether the first word is a virtual host: an address follows, or a name after a host with a port, and then the two words of every line.
   * A client is followed by the ident instead, which is a dash on all servers but very old ones.
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

  /** The space behind a word; −1 if there is none. Addresses and host names contain no other bytes, but binary junk does. */
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
   * The request ends at the first bare quote with a status and a size behind it: some servers do not escape the quotes that
   * clients send.
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
