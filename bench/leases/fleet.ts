import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { Spending } from '../../test/support/leases/spending.js'

const BUYER = fileURLToPath(new URL('./buyer.mjs', import.meta.url))

/** The requests of a process under one policy. */
interface BuyerRun {
  readonly policy: string
  readonly prefix: string
  readonly perSecond: number
  /**
   * The part of the time between two requests by which it is ahead of the first process: else all would ask in the same
   * ms.
   */
  readonly phase: number
}

export interface BuyerOptions {
  readonly port: number
  readonly leases: boolean | { ttl?: number | string }
  readonly key: string
  readonly forMs: number
  readonly runs: readonly BuyerRun[]
}

/** The answers to all processes together under one policy. */
export class RunRecord {
  /** Units that were allowed. */
  readonly spending = new Spending()
  /** Requests, allowed or not. */
  readonly decided = new Spending()
  /** Decisions of the failure policy. */
  readonly degraded = new Spending()
  /** Of the processes that ended by themselves: units that were spent from leases. */
  fromLeases = 0
}

/** A process of a fleet. */
export class Buyer {
  readonly ready: Promise<void>
  readonly ended: Promise<void>
  readonly #child: ChildProcess
  #heardReady: () => void = () => {}

  constructor(
    options: BuyerOptions,
    readonly records: readonly RunRecord[],
  ) {
    this.#child = spawn(process.execPath, [BUYER, JSON.stringify(options)], { stdio: ['pipe', 'pipe', 'inherit'] })
    // A process that was killed reads nothing.
    this.#child.stdin?.on('error', () => {})
    this.ready = new Promise(resolve => {
      this.#heardReady = resolve
    })
    let rest = ''
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) this.#read(line)
    })
    this.ended = new Promise(resolve => this.#child.once('close', () => resolve()))
  }

  /** It begins at this moment, ms by the machine's clock. */
  begin(startsAt: number): void {
    this.#child.stdin?.end(String(startsAt))
  }

  /** SIGKILL. */
  kill(): void {
    this.#child.kill('SIGKILL')
  }

  #read(line: string): void {
    if (line === 'ready') {
      this.#heardReady()
      return
    }
    if (line.startsWith('end ')) {
      for (const [i, units] of (JSON.parse(line.slice(4)) as number[]).entries()) this.records[i].fromLeases += units
      return
    }
    const [run, askedAt, answeredAt, allowed, decided, degraded] = line.split(' ').map(Number)
    const record = this.records[run]
    if (allowed > 0) record.spending.add(askedAt, answeredAt, allowed)
    record.decided.add(askedAt, answeredAt, decided)
    if (degraded > 0) record.degraded.add(askedAt, answeredAt, degraded)
  }
}
