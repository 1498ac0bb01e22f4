import { execFile } from 'node:child_process'
import { mkdtemp, open, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'

/**
 * The clock of one server, on Linux: it can be set, as an administrator or NTP would do it, while the machine's own
 * goes on.
 */
export class SteppedClock {
  /** What the server has to be started with. */
  readonly env: Readonly<Record<string, string>>

  private constructor(
    readonly dir: string,
    readonly offset: string,
    library: string,
  ) {
    this.env = { LD_PRELOAD: library, STEPPED_CLOCK: offset }
  }

  static async make(): Promise<SteppedClock> {
    const dir = await mkdtemp(join(tmpdir(), 'spillway-clock-'))
    const [offset, library] = [join(dir, 'offset'), join(dir, 'stepped-clock.so')]
    await writeFile(offset, Buffer.alloc(8))
    const source = resolve('test/support/stepped-clock.c')
    await promisify(execFile)('cc', ['-O1', '-shared', '-fPIC', '-o', library, source])
    return new SteppedClock(dir, offset, library)
  }

  /** From now on the server's clock shows so much more, in ms, than the machine's. */
  async set(aheadMs: number): Promise<void> {
    const us = Buffer.alloc(8)
    us.writeBigInt64LE(BigInt(aheadMs) * 1000n)
    const file = await open(this.offset, 'r+')
    // In place and at once: the server reads the file as memory.
    await file.write(us, 0, 8, 0)
    await file.close()
  }

  remove(): Promise<void> {
    return rm(this.dir, { recursive: true, force: true })
  }
}
