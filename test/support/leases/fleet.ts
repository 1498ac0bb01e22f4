import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { Spending } from './spending.js'

const BUYER = fileURLToPath(new URL('./buyer.mjs', import.meta.url))

export interface BuyerOptions {
  readonly port: number
  readonly policy: string
  readonly prefix: string
  readonly leases: boolean | { ttl?: number | string }
  readonly perSecond: number
  readonly forMs: number
  readonly key: string
  /** ms by the machine's clock. */
  readonly startsAt?: number
}

/** How one process has ended by itself. */
export interface BuyerCounts {
  readonly decisions: number
  readonly allowed: number
  readonly lease: number
  readonly degraded: number
}

/** Processes that spend from the same key, and what all of them together have spent. */
export class Fleet {
  readonly spending = new Spending()
  readonly counts: BuyerCounts[] = []
  readonly #alive: ChildProcess[] = []
  readonly #ended: Promise<void>[] = []

  start(options: BuyerOptions): ChildProcess {
    const child = spawn(process.execPath, [BUYER, JSON.stringify(options)], { stdio: ['ignore', 'pipe', 'inherit'] })
    this.#alive.push(child)
    let rest = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) this.#read(line)
    })
    this.#ended.push(
      new Promise(resolve => {
        child.once('close', () => {
          this.#alive.splice(this.#alive.indexOf(child), 1)
          resolve()
        })
      }),
    )
    return child
  }

  /** Kills the process that has lived longest (SIGKILL). */
  killOldest(): void {
    this.#alive[0]?.kill('SIGKILL')
  }

  /** All have ended; also those that are started meanwhile. */
  async end(): Promise<void> {
    for (let known = 0; known < this.#ended.length; ) {
      known = this.#ended.length
      await Promise.all(this.#ended)
    }
  }

  kill(): void {
    for (const child of this.#alive) child.kill('SIGKILL')
  }

  get decisions(): number {
    return this.counts.reduce((sum, { decisions }) => sum + decisions, 0)
  }

  #read(line: string): void {
    if (line.startsWith('end ')) {
      this.counts.push(JSON.parse(line.slice(4)) as BuyerCounts)
      return
    }
    const [askedAt, answeredAt, units] = line.split(' ').map(Number)
    this.spending.add(askedAt, answeredAt, units)
  }
}
