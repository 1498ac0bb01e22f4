/** A server's reply. Errors are values here, because most of them are findings. */
export type Reply = string | number | null | ReplyError | readonly Reply[]

export class ReplyError extends Error {}

/** The largest reply that is accepted; the doctor never requests a longer one. */
const LONGEST = 64 * 1024 * 1024

/** The server does not speak the protocol of Redis. */
export class ProtocolError extends Error {}

/** Splits a server's output (RESP 2) into replies. */
export class ReplyReader {
  #bytes: Buffer = Buffer.alloc(0)

  /** The replies that are complete now, in order. */
  push(bytes: Buffer): Reply[] {
    this.#bytes = this.#bytes.length === 0 ? bytes : Buffer.concat([this.#bytes, bytes])
    const replies: Reply[] = []
    let at = 0
    for (;;) {
      const read = this.#read(at)
      if (read === undefined) break
      replies.push(read.reply)
      at = read.end
    }
    this.#bytes = this.#bytes.subarray(at)
    return replies
  }

  /** The reply that begins at `start`; undefined if it is not complete. */
  #read(start: number): { reply: Reply; end: number } | undefined {
    const lineEnd = this.#bytes.indexOf('\r\n', start)
    if (lineEnd < 0) {
      if (this.#bytes.length - start > LONGEST) throw new ProtocolError('it sends a line that never ends')
      return undefined
    }
    const line = this.#bytes.toString('utf8', start + 1, lineEnd)
    const end = lineEnd + 2
    switch (this.#bytes[start]) {
      case 43: // +
        return { reply: line, end }
      case 45: // -
        return { reply: new ReplyError(line), end }
      case 58: // :
        return { reply: lengthOf(line), end }
      case 36: // $
        return this.#readText(end, lengthOf(line))
      case 42: // *
        return this.#readList(end, lengthOf(line))
      default:
        throw new ProtocolError('its reply is not in the protocol of Redis')
    }
  }

  #readText(start: number, length: number): { reply: Reply; end: number } | undefined {
    if (length < 0) return { reply: null, end: start }
    const end = start + length
    return this.#bytes.length < end + 2 ? undefined : { reply: this.#bytes.toString('utf8', start, end), end: end + 2 }
  }

  #readList(start: number, count: number): { reply: Reply; end: number } | undefined {
    if (count < 0) return { reply: null, end: start }
    const list: Reply[] = []
    let end = start
    for (let i = 0; i < count; i++) {
      const read = this.#read(end)
      if (read === undefined) return undefined
      list.push(read.reply)
      end = read.end
    }
    return { reply: list, end }
  }
}

function lengthOf(line: string): number {
  const value = Number(line)
  if (line === '' || !Number.isSafeInteger(value) || value > Number.MAX_SAFE_INTEGER) {
    throw new ProtocolError('what it sends is not the protocol of Redis')
  }
  return value
}
