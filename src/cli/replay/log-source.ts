import { open } from 'node:fs/promises'
import { addAbortSignal, pipeline, type Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { SpillwayError } from '../../core/errors.js'
import { shownGiven } from '../shown-given.js'

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
        `${shownGiven(this.name)} is compressed with ${foreign.name}: expected text or gzip, like: ${foreign.command} FILE | spillway replay -`,
      )
    }
    if (UTF_16.some(mark => startsWith(head, mark))) {
      throw new LogError(
        `${shownGiven(this.name)} is UTF-16: expected UTF-8 or ASCII, like: iconv -f UTF-16 -t UTF-8 FILE | spillway replay -`,
      )
    }
    const all = joined(head, stored)
    if (!startsWith(head, GZIP)) return all
    // The callback is for errors, which the reader of the unzipped bytes receives as well.
    return pipeline(all, createGunzip({ chunkSize: BLOCK_BYTES }), () => {})
  }

  #faultOf(error: unknown): LogError {
    if (error instanceof LogError) return error
    return new LogError(`cannot read ${shownGiven(this.name)} to its end: ${reasonOf(error)}`, { cause: error })
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
      `cannot read ${shownGiven(path)}: ${reasonOf(error)}; expected an access log, like /var/log/nginx/access.log, or - for standard input`,
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
