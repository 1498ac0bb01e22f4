import type { Ringing, Timing } from '../../../src/limiter/core/alarms.js'
import {
  type GrantFacts,
  isLateOnce,
  type LineAsk,
  type LineMailbox,
  type LineUser,
  type Wanted,
} from '../../../src/waiting/line/line-user.js'
import { WaitingLine } from '../../../src/waiting/line/waiting-line.js'
import { answerText } from '../../support/line-words.js'
import type { Random } from '../../support/random.js'
import { LineOracle } from './oracle.js'

interface Event {
  at: number
  readonly order: number
  readonly process: Process | undefined
  readonly run: () => void
}

/** The probability of each network fault for a message, in percent. */
export interface Faults {
  readonly lost: number
  readonly late: number
  readonly doubled: number
}

/** Controls time, a server and the network between it and some processes. */
export class Simulation {
  nowMs = 1_000_000
  faults: Faults
  readonly oracle: LineOracle
  readonly processes: Process[] = []
  readonly began: { readonly who: string; readonly cost: number; readonly at: number; readonly grantedAt: number }[] =
    []
  #events: Event[] = []
  #order = 0

  constructor(
    readonly random: Random,
    rate: number,
    intervalMs: number,
    faults: Faults,
  ) {
    this.faults = faults
    this.oracle = new LineOracle(rate, intervalMs, () => this.nowMs)
  }

  start(count: number): void {
    for (let i = 0; i < count; i++) this.processes.push(new Process(this, `p${i}`))
  }

  schedule(at: number, process: Process | undefined, run: () => void): Event {
    const event: Event = { at, order: this.#order++, process, run }
    this.#events.push(event)
    return event
  }

  cancel(event: Event | undefined): void {
    this.#events = this.#events.filter(each => each !== event)
  }

  /** Lets so much time pass, with all that happens in it. */
  async advance(ms: number): Promise<void> {
    const until = this.nowMs + ms
    for (;;) {
      await settled()
      const due = this.#events
        .filter(({ at, process }) => at <= until && process?.stopped !== true)
        .sort((a, b) => a.at - b.at || a.order - b.order)[0]
      if (due === undefined) break
      this.cancel(due)
      this.nowMs = Math.max(this.nowMs, due.at)
      due.run()
    }
    this.nowMs = until
  }

  /** A command on its way to the server: it may be lost, late, or come twice; and so may its answer. */
  send(process: Process, ask: LineAsk): Promise<unknown> {
    return new Promise(resolve => {
      const copies = this.#happens(this.faults.doubled) ? 2 : 1
      for (let copy = 0; copy < copies; copy++) {
        if (this.#happens(this.faults.lost)) continue
        this.schedule(this.nowMs + this.#delay(), undefined, () => {
          const reply = answerText(this.oracle.ask(ask.words))
          this.tell()
          if (this.#happens(this.faults.lost)) return
          this.schedule(this.nowMs + this.#delay(), process, () => resolve(reply))
        })
      }
    })
  }

  /** Messages to the processes that were notified. */
  tell(): void {
    for (const member of this.oracle.notified.splice(0)) {
      const process = this.processes.find(({ mailbox }) => member.startsWith(`${mailbox.address}.`))
      if (process === undefined || this.#happens(this.faults.lost)) continue
      this.schedule(this.nowMs + this.#delay(), process, () => process.line.hear())
    }
  }

  #happens(percent: number): boolean {
    return this.random.integer(0, 99) < percent
  }

  #delay(): number {
    return this.#happens(this.faults.late) ? this.random.integer(10, 1500) : this.random.integer(0, 2)
  }
}

/**
 * One process with the real client of the line. While it is stopped nothing happens in it; due timers run when it
 * continues.
 */
export class Process implements LineUser<void> {
  readonly width = 0
  readonly deadlineMs = 1e9
  readonly isLate = isLateOnce
  readonly line: WaitingLine<void>
  readonly mailbox: LineMailbox
  stopped = false

  constructor(
    readonly world: Simulation,
    name: string,
  ) {
    this.mailbox = { address: `${name}/0`, canHear: true, hold() {}, release() {} }
    this.line = new WaitingLine<void>(this, timingOf(world, this))
  }

  ready(): boolean {
    return true
  }
  isFault(): boolean {
    return false
  }
  send(ask: LineAsk): Promise<unknown> {
    return this.world.send(this, ask)
  }
  grant({ details, cost }: Wanted, { at }: GrantFacts): void {
    this.world.began.push({ who: details, cost, at: this.world.nowMs, grantedAt: at })
  }
  refusal(): Error {
    return new Error('refused')
  }
  timedOut(): Error {
    return new Error('timed out')
  }
  ended(): Error {
    return new Error('ended')
  }
  failed(cause: unknown): Error {
    return new Error('failed', { cause })
  }
}

function timingOf(world: Simulation, process: Process): Timing {
  return {
    now: () => world.nowMs,
    alarm(ring): Ringing {
      let event: Event | undefined
      const clear = () => {
        if (event !== undefined) world.cancel(event)
        event = undefined
      }
      return {
        clear,
        set(at) {
          clear()
          if (at === Number.POSITIVE_INFINITY) return
          event = world.schedule(Math.max(at, world.nowMs), process, () => {
            event = undefined
            ring()
          })
        },
      }
    },
    nextTurn: run => void world.schedule(world.nowMs, process, run),
  }
}

/** Promises of what has just happened are settled. */
async function settled(): Promise<void> {
  for (let i = 0; i < 8; i++) await Promise.resolve()
}
