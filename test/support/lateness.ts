import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'

/** A server or a child process of a test. */
interface Watched {
  readonly pid?: number
}

interface Seen {
  readonly wokenLateMs: number
  readonly waitedMs: readonly number[]
}

/**
 * How late this machine makes a test and its servers, by a witness: a process of its own, which tells for how long they
 * could have run while others had the processors, and how late it was woken itself. This is what a busy machine adds to
 * the time that a test takes. What our code computes is no excuse, in this process or in a script on the server.
 */
export class Lateness {
  readonly #witness: ChildProcess
  #ms: Promise<number> | undefined

  private constructor(pids: readonly number[]) {
    const program = join(process.cwd(), 'test/support/witness.mjs')
    this.#witness = fork(program, pids.map(String), { execArgv: [], env: { ...process.env, NODE_OPTIONS: '' } })
    // It ends with this process, and does not hold it.
    this.#witness.unref()
    this.#witness.channel?.unref()
  }

  /** Of this process, and of all others that what is measured has to wait for. Resolves when the witness looks. */
  static async of(...others: readonly Watched[]): Promise<Lateness> {
    const lateness = new Lateness([process.pid, ...others.map(({ pid }) => pid as number)])
    await once(lateness.#witness, 'message')
    return lateness
  }

  /** ms until the first such call: of all of them together, since one waits for another. */
  stop(): Promise<number> {
    this.#ms ??= this.#stop()
    return this.#ms
  }

  async #stop(): Promise<number> {
    const answered = once(this.#witness, 'message')
    this.#witness.send('how late?')
    const [{ wokenLateMs, waitedMs }] = (await answered) as [Seen]
    this.#witness.disconnect()
    // Whatever stops the whole machine is seen by the witness only, and so is all where the system tells nothing.
    return Math.max(
      wokenLateMs,
      waitedMs.reduce((sum, ms) => sum + ms, 0),
    )
  }
}
