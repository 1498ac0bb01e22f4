import { getOrMake } from './maps.js'

/**
 * Emits a process warning of the type SpillwayWarning with this code; in runtimes without process warnings it goes to
 * the console.
 */
export function emitWarning(code: string, text: string): void {
  if (globalThis.process?.emitWarning === undefined) console.warn(`${code}: ${text}`)
  else process.emitWarning(text, { type: 'SpillwayWarning', code })
}

/** This many failed decisions in a row count as an outage. */
const IN_A_ROW = 3
/** At most one pair of warnings per this time. */
const EVERY_MS = 60_000
/** After this long without a failure, any answer ends the outage: whoever failed may not ask again. */
const CALM_MS = 1000

/** What all that ask one server know of its outage. */
interface Outage {
  warned: boolean
  /** The code of its first warning, and so of its second. */
  code: string
  warnedAt: number
  failedAt: number
}

const OUTAGES = new WeakMap<object, Outage>()

/**
 * Reports the outage of a server by process warnings (by default SPILLWAY_STORE): one when it begins and one when the
 * server answers again, at most one such pair a minute, however many objects ask the server. Each of them has an
 * instance of its own, which counts its failures.
 */
export class OutageWarnings {
  readonly #outage: Outage
  #failures = 0

  /**
   * `server`: the client or store; all instances of one share its warnings. `store` names it, like "Redis at
   * 127.0.0.1:6379"; `meanwhile` is a clause that says what happens during an outage. Times are by `nowMs`, a monotonic
   * clock.
   */
  constructor(
    server: object,
    readonly store: () => string,
    readonly meanwhile: string,
    readonly nowMs: () => number = () => performance.now(),
    readonly code = 'SPILLWAY_STORE',
  ) {
    const never = Number.NEGATIVE_INFINITY
    this.#outage = getOrMake(OUTAGES, server, () => ({ warned: false, code, warnedAt: never, failedAt: never }))
  }

  /**
   * The server failed one decision, or is not asked because it fails. `isOutage`: it has failed so often that it is no
   * longer asked.
   */
  failed(error: Error | undefined, isOutage = false): void {
    this.#failures = isOutage ? Math.max(this.#failures + 1, IN_A_ROW) : this.#failures + 1
    this.#outage.failedAt = this.nowMs()
    if (this.#failures >= IN_A_ROW) this.#warn(error)
  }

  answered(): void {
    const { warned, failedAt, warnedAt, code } = this.#outage
    if (this.#failures === 0 && !(warned && this.nowMs() - failedAt >= CALM_MS)) return
    this.#failures = 0
    if (!warned) return
    this.#outage.warned = false
    const seconds = ((this.nowMs() - warnedAt) / 1000).toFixed(1)
    emitWarning(code, `${this.store()} answers again, ${seconds} s after it was found to fail`)
  }

  #warn(error: Error | undefined): void {
    const outage = this.#outage
    const nowMs = this.nowMs()
    if (outage.warned || nowMs - outage.warnedAt < EVERY_MS) return
    outage.warned = true
    outage.code = this.code
    outage.warnedAt = nowMs
    const reason = error === undefined ? '' : ` (${error.message})`
    emitWarning(this.code, `${this.store()} does not answer${reason}: until it does, ${this.meanwhile}`)
  }
}
