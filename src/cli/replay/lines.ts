const NEWLINE = 10
const RETURN = 13

/** Takes each line as a range of bytes, which stays valid only during the call. */
export interface LineReader {
  line(bytes: Buffer, start: number, end: number): void
  /** A line that is too long to keep; none of its bytes are passed on. */
  overlongLine(): void
}

/**
 * Splits blocks of bytes into lines without copying, except lines across two blocks. It keeps at most
 * `maxBytes` of a line of any length.
 */
export class LineCutter {
  readonly #reader: LineReader
  readonly #held: Buffer
  #heldBytes = 0
  #overlong = false

  constructor(reader: LineReader, maxBytes: number) {
    this.#reader = reader
    this.#held = Buffer.alloc(maxBytes)
  }

  push(block: Buffer): void {
    let start = 0
    let end = block.indexOf(NEWLINE)
    while (end >= 0) {
      this.#line(block, start, end)
      start = end + 1
      end = block.indexOf(NEWLINE, start)
    }
    this.#hold(block, start, block.length)
  }

  /** The end of the log, which ends a line that has no newline. */
  end(): void {
    if (this.#heldBytes > 0 || this.#overlong) this.#give(this.#held, 0, this.#heldBytes)
  }

  #line(block: Buffer, start: number, end: number): void {
    if (this.#heldBytes === 0 && !this.#overlong) this.#give(block, start, end)
    else {
      this.#hold(block, start, end)
      this.#give(this.#held, 0, this.#heldBytes)
    }
  }

  #hold(block: Buffer, start: number, end: number): void {
    if (this.#overlong || this.#heldBytes + end - start > this.#held.length) {
      this.#overlong = true
      return
    }
    block.copy(this.#held, this.#heldBytes, start, end)
    this.#heldBytes += end - start
  }

  #give(bytes: Buffer, start: number, end: number): void {
    const overlong = this.#overlong || end - start > this.#held.length
    this.#overlong = false
    this.#heldBytes = 0
    if (overlong) this.#reader.overlongLine()
    else this.#reader.line(bytes, start, end > start && bytes[end - 1] === RETURN ? end - 1 : end)
  }
}
