import { open } from 'node:fs/promises'
import { addAbortSignal, pipeline, type Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import type { Clock } from '../../../limiter/core/clock.js'
import { SpillwayError } from '../../../limiter/core/errors.js'
import { shownArgument } from '../arguments.js'
import { count, sizeOf } from '../table.js'

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

const EVERY_MS = 200
const BAR = 24
/** A narrower terminal has no room for a bar. */
const NARROWEST = 80
const CLEAR_LINE = '\r\x1b[K'

/**
 * Shows how much of a log has been read, as a bar and numbers on one line of a terminal, a few times a second. Writes
 * nothing if the output is no terminal.
 */
export class Progress {
  readonly #startedAt: number
  #shownAt: number
  #visible = false

  /** `totalBytes`: undefined if unknown, as for a pipe. */
  constructor(
    readonly output: { readonly isTTY?: boolean; readonly columns?: number; write(text: string): unknown },
    readonly totalBytes: number | undefined,
    readonly clock: Clock,
    /** True if the terminal can show more than ASCII. */
    readonly unicode = false,
  ) {
    this.#startedAt = clock.now()
    this.#shownAt = this.#startedAt
  }

  update(bytes: number, lines: number): void {
    if (!this.output.isTTY) return
    const nowMs = this.clock.now()
    if (nowMs - this.#shownAt < EVERY_MS) return
    this.#shownAt = nowMs
    this.#visible = true
    const perSecond = Math.round(lines / ((nowMs - this.#startedAt) / 1000))
    const parts = [sizeOf(bytes), `${count(lines)} lines`, `${count(perSecond)} lines/s`]
    if (this.totalBytes) {
      const part = Math.min(bytes / this.totalBytes, 1)
      parts[0] = `${Math.floor(part * 100)} % of ${sizeOf(this.totalBytes)}`
      if (part > 0) parts.push(`${Math.ceil(((nowMs - this.#startedAt) / 1000) * (1 / part - 1))} s left`)
    }
    // A line that is too long would wrap, and could not be cleared.
    this.output.write(`${CLEAR_LINE}${(this.#bar(bytes) + parts.join('  ')).slice(0, this.#columns - 1)}`)
  }

  get #columns(): number {
    return this.output.columns ?? NARROWEST
  }

  #bar(bytes: number): string {
    if (!this.totalBytes || this.#columns < NARROWEST) return ''
    const done = Math.round(Math.min(bytes / this.totalBytes, 1) * BAR)
    const [full, empty] = this.unicode ? ['█', '░'] : ['#', '-']
    return `${full.repeat(done)}${empty.repeat(BAR - done)}  `
  }

  /** Clears the line. */
  clear(): void {
    if (this.#visible) this.output.write(CLEAR_LINE)
    this.#visible = false
  }
}

const BLOCK_BYTES = 256 * 1024
const LONGEST_MAGIC = 6
const GZIP = [0x1f, 0x8b]
const ANY = -1
/** Compressions that Node 20 cannot read, and the commands that can. */
const FOREIGN = [
  { name: 'zstd', magic: [0x28, 0xb5, 0x2f, 0xfd], command: 'zstd -dc' },
  { name: 'xz', magic: [0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00], command: 'xz -dc' },
  { name: 'bzip2', magic: [0x42, 0x5a, 0x68, ANY, 0x31, 0x41], command: 'bzip2 -dc' },
]
const UTF_16 = [
  [0xff, 0xfe],
  [0xfe, 0xff],
]
const REASONS: Record<string, string> = {
  ENOENT: 'there is no such file',
  EACCES: 'permission denied',
  EISDIR: 'it is a directory',
  Z_BUF_ERROR: 'its gzip data ends too early',
}

/** A log that cannot be read, or not to its end. */
export class LogError extends SpillwayError {
  override readonly code = 'SPILLWAY_LOG'
}

/**
 * The bytes of a log: of a file or, for `-`, of the standard input; unzipped if zipped, regardless of the file's name.
 * An abort ends the reading with the signal's error.
 */
export class LogSource {
  /** Bytes read so far, as they are stored: zipped ones before unzipping. */
  bytesRead = 0
  #abort: AbortSignal | undefined

  constructor(
    readonly name: string,
    readonly stream: Readable,
    /** undefined unless it is a plain file. */
    readonly totalBytes: number | undefined,
  ) {}

  async *blocks(signal: AbortSignal): AsyncGenerator<Buffer> {
    this.#abort = signal
    try {
      yield* await this.#unzipped(this.#stored())
    } catch (error) {
      throw signal.aborted ? error : this.#faultOf(error)
    } finally {
      // Otherwise a pipe without a reader would keep the process alive.
      this.stream.destroy()
    }
  }

  async *#stored(): AsyncGenerator<Buffer> {
    if (this.#abort) addAbortSignal(this.#abort, this.stream)
    for await (const block of this.stream as AsyncIterable<Buffer>) {
      this.bytesRead += block.length
      yield block
    }
  }

  async #unzipped(stored: AsyncGenerator<Buffer>): Promise<AsyncIterable<Buffer>> {
    const head = await firstBytes(stored)
    const foreign = FOREIGN.find(({ magic }) => startsWith(head, magic))
    if (foreign) {
      throw new LogError(
        `${shownArgument(this.name)} is compressed with ${foreign.name}: expected text or gzip, like: ` +
          `${foreign.command} FILE | spillway replay -`,
      )
    }
    if (UTF_16.some(mark => startsWith(head, mark))) {
      throw new LogError(
        `${shownArgument(this.name)} is UTF-16: expected UTF-8 or ASCII, like: iconv -f UTF-16 -t UTF-8 FILE | ` +
          'spillway replay -',
      )
    }
    const all = joined(head, stored)
    if (!startsWith(head, GZIP)) return all
    // The callback is for errors, which the reader of the unzipped bytes receives as well.
    return pipeline(all, createGunzip({ chunkSize: BLOCK_BYTES }), () => {})
  }

  #faultOf(error: unknown): LogError {
    if (error instanceof LogError) return error
    return new LogError(`cannot read ${shownArgument(this.name)} to its end: ${reasonOf(error)}`, { cause: error })
  }
}

/** Throws `LogError` if the file cannot be opened or is none. */
export async function openLog(path: string, standardInput: Readable): Promise<LogSource> {
  if (path === '-') return new LogSource('standard input', standardInput, undefined)
  try {
    const file = await open(path)
    const stat = await file.stat()
    if (stat.isDirectory()) {
      await file.close()
      throw Object.assign(new Error('is a directory'), { code: 'EISDIR' })
    }
    return new LogSource(
      path,
      file.createReadStream({ highWaterMark: BLOCK_BYTES }),
      stat.isFile() ? stat.size : undefined,
    )
  } catch (error) {
    throw new LogError(
      `cannot read ${shownArgument(path)}: ${reasonOf(error)}; expected an access log, like ` +
        '/var/log/nginx/access.log, or - for standard input',
      { cause: error },
    )
  }
}

function reasonOf(error: unknown): string {
  const { code = '', message } = error as NodeJS.ErrnoException
  return REASONS[code] ?? (code.startsWith('Z_') ? `its gzip data is damaged (${message})` : message)
}

/** As many bytes as the longest magic number has, from however small blocks. */
async function firstBytes(blocks: AsyncGenerator<Buffer>): Promise<Buffer> {
  let head: Buffer = Buffer.alloc(0)
  while (head.length < LONGEST_MAGIC) {
    const { done, value } = await blocks.next()
    if (done) break
    head = head.length === 0 ? value : Buffer.concat([head, value])
  }
  return head
}

async function* joined(head: Buffer, rest: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  if (head.length > 0) yield head
  yield* rest
}

function startsWith(bytes: Uint8Array, magic: readonly number[]): boolean {
  return magic.every((byte, i) => bytes[i] === byte || (byte === ANY && i < bytes.length))
}
