import { type ChildProcess, fork } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const folder = join(dirname(fileURLToPath(import.meta.url)), '../contenders')

/** Who is measured, and by which file of `contenders/`, told what. */
export interface Contender {
  readonly name: string
  readonly file: string
  readonly setup: unknown
  readonly nodeOptions?: readonly string[]
}

/** One contender in a plain Node process of its own: no loader, nobody else's JIT state. Answers one question at a time. */
export class ContenderProcess {
  readonly #child: ChildProcess
  readonly #exited: Promise<unknown>

  constructor(readonly contender: Contender) {
    this.#child = fork(join(folder, contender.file), [JSON.stringify(contender.setup)], {
      // Ours is run by tsx, which must not come along.
      execArgv: [...(contender.nodeOptions ?? [])],
      env: { ...process.env, NODE_OPTIONS: '', NODE_ENV: 'production' },
    })
    this.#exited = new Promise(resolve => this.#child.once('exit', resolve))
  }

  ask<Answer>(question: string, details?: unknown): Promise<Answer> {
    const child = this.#child
    return new Promise((resolve, reject) => {
      const fail = (why: string) => {
        settle()
        reject(new Error(`${this.contender.name}, asked ${question}: ${why}`))
      }
      const onExit = (code: number | null) => fail(`its process ended with code ${code}`)
      const onMessage = (message: { answer?: Answer; error?: string }) => {
        if (message.error !== undefined) return fail(message.error)
        settle()
        resolve(message.answer as Answer)
      }
      const settle = () => child.off('exit', onExit).off('message', onMessage)
      child.once('exit', onExit).once('message', onMessage)
      child.send({ question, details })
    })
  }

  async end(): Promise<void> {
    if (this.#child.connected) this.#child.disconnect()
    await this.#exited
  }
}

/** A fresh process for one purpose. */
export async function withProcess<Result>(
  contender: Contender,
  use: (child: ContenderProcess) => Promise<Result>,
): Promise<Result> {
  const child = new ContenderProcess(contender)
  try {
    return await use(child)
  } finally {
    await child.end()
  }
}
