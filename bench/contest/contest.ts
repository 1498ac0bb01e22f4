import { type ChildProcess, fork } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** How long to measure. */
export interface Effort {
  readonly name: 'full' | 'quick'
  /** Fresh processes for every contender: no luck of one process (heap layout, hash seed, JIT) decides. */
  readonly generations: number
  /** Turns of each contender in one generation. */
  readonly rounds: number
  /** What every time span is multiplied by. */
  readonly stretch: number
}

const FULL: Effort = { name: 'full', generations: 2, rounds: 5, stretch: 1 }
const QUICK: Effort = { name: 'quick', generations: 1, rounds: 3, stretch: 0.4 }

/** As the command line wants it: `--quick`, or else full. */
export function chosenEffort(): Effort {
  return process.argv.includes('--quick') ? QUICK : FULL
}

const folder = join(dirname(fileURLToPath(import.meta.url)), '../contenders')

/** Who is measured, and by which file of `contenders/`, told what. */
export interface Contender {
  readonly name: string
  readonly file: string
  readonly setup: unknown
  readonly nodeOptions?: readonly string[]
  /** The path of the Node that runs it, in place of this one. */
  readonly node?: string
}

/**
 * One contender in a plain Node process of its own: no loader, nobody else's JIT state. Answers one question at a time.
 */
export class ContenderProcess {
  readonly #child: ChildProcess
  readonly #exited: Promise<unknown>

  constructor(readonly contender: Contender) {
    this.#child = fork(join(folder, contender.file), [JSON.stringify(contender.setup)], {
      // Ours is run by tsx, which must not come along.
      execArgv: [...(contender.nodeOptions ?? [])],
      execPath: contender.node ?? process.execPath,
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

/** Throws unless each contender, asked 30 times at quota 10, lets ten pass. */
export async function checkQuota(contenders: readonly Contender[], before: () => unknown = () => {}): Promise<void> {
  for (const contender of contenders) {
    await before()
    const passed = await withProcess(contender, child => child.ask<number[]>('check'))
    if (passed.some(count => count !== 10)) throw new Error(`${contender.name} let ${passed} of 30 pass at quota 10`)
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

/** What each contender's turns gave, by its name; turn n of one ran next to turn n of all others. */
export type Turns<Result> = ReadonlyMap<string, readonly Result[]>

export interface ContestOptions<Result> {
  /** Makes a fresh process ready to be measured. */
  readonly warmUp: (child: ContenderProcess) => Promise<unknown>
  readonly turn: (child: ContenderProcess) => Promise<Result>
}

/**
 * Measures contenders in alternating order (A B C, C B A, A B C …), each in its own process, which is idle while
 * another is measured. So other load on the machine affects all of them alike. Several generations of processes.
 */
export async function contest<Result>(
  contenders: readonly Contender[],
  effort: Effort,
  { warmUp, turn }: ContestOptions<Result>,
): Promise<Turns<Result>> {
  const turns = new Map<string, Result[]>(contenders.map(({ name }) => [name, []]))
  for (let generation = 0; generation < effort.generations; generation++) {
    const children: ContenderProcess[] = []
    try {
      for (const contender of contenders) {
        const child = new ContenderProcess(contender)
        children.push(child)
        await warmUp(child)
      }
      for (let round = 0; round < effort.rounds; round++) {
        const order = round % 2 === 0 ? children : children.toReversed()
        for (const child of order) turns.get(child.contender.name)!.push(await turn(child))
      }
    } finally {
      for (const child of children) await child.end()
    }
  }
  return turns
}
