import { type Ringing, realTiming, type Timing } from './alarms.js'
import { type Duration, parseDurationOrZero } from './duration.js'
import { PolicyError, shown } from './errors.js'
import { checkOptions, type OptionNames } from './options.js'

const LISTENERS = new WeakMap<AbortSignal, Set<() => void>>()

/**
 * Calls back when the signal is aborted; the returned function unsubscribes. We add only one listener to a signal,
 * however many waiters share it: Node warns of a leak from the eleventh listener on.
 */
function onAbort(signal: AbortSignal, listener: () => void): () => void {
  let listeners = LISTENERS.get(signal)
  if (listeners === undefined) {
    const all = new Set<() => void>()
    const callAll = () => {
      LISTENERS.delete(signal)
      for (const each of all) each()
    }
    signal.addEventListener('abort', callAll, { once: true })
    OURS.set(all, callAll)
    LISTENERS.set(signal, all)
    listeners = all
  }
  const mine = listeners
  mine.add(listener)
  return () => {
    if (!mine.delete(listener) || mine.size > 0 || LISTENERS.get(signal) !== mine) return
    // A signal that lives as long as the process must not accumulate listeners of ended waits.
    LISTENERS.delete(signal)
    signal.removeEventListener('abort', OURS.get(mine) as () => void)
  }
}

const OURS = new WeakMap<Set<() => void>, () => void>()

/** How long to wait, and what ends the wait early. */
export interface WaitOptions {
  /** The longest wait. Undefined: no limit. 0: does not wait. */
  timeout?: Duration | 0
  /**
   * Default: none. Aborting it, like `AbortSignal.timeout(5000)`, ends the wait: the promise rejects with its reason,
   * and nothing is spent.
   */
  signal?: AbortSignal
}

export const WAIT_OPTIONS: OptionNames<WaitOptions> = { timeout: true, signal: true }

/** The checked wait options of a call. */
export interface Patience {
  /** 0: does not wait; Infinity: for ever. */
  readonly timeoutMs: number
  readonly signal: AbortSignal | undefined
}

/**
 * Checks `timeout` and `signal`, and that all option names are in `names`; throws `PolicyError`, in which `method`
 * names the called method. `absentMs` is the default timeout. A timeout below 0 counts as 0.
 */
export function patienceOf(
  options: WaitOptions | undefined,
  method: string,
  absentMs: number,
  names: Readonly<Record<string, true>> = WAIT_OPTIONS,
): Patience {
  if (options !== undefined) checkOptions(method, options, names, "{ timeout: '5s' }")
  const { timeout, signal } = options ?? {}
  if (signal !== undefined && !(typeof signal === 'object' && typeof signal?.addEventListener === 'function')) {
    throw new PolicyError(`${method}: signal ${shown(signal)}: expected an AbortSignal, like AbortSignal.timeout(500)`)
  }
  return { timeoutMs: timeout === undefined ? absentMs : timeoutOf(timeout, `${method}: timeout`), signal }
}

/** The longest wait, in ms; below 0 counts as 0. `what` names the option in the `PolicyError`. */
export function timeoutOf(timeout: Duration, what: string): number {
  if (timeout === Number.POSITIVE_INFINITY) return timeout
  if (typeof timeout === 'number' && timeout <= 0) return 0
  return parseDurationOrZero(timeout, what)
}

/**
 * A caller that waits. It ends once, by the first of: `resolve`, `reject`, the abort of its signal, the end of
 * its timeout. When it ends, its timer and its listener are gone.
 *
 * While it has a finite timeout, it keeps the process alive; otherwise the code that will end it must do so.
 */
export class Wait<T> {
  readonly promise: Promise<T>
  readonly #patience: Patience
  readonly #timing: Timing
  #alarm: Ringing | undefined
  readonly #startedAt: number
  #settle: { resolve(value: T): void; reject(error: unknown): void } | undefined
  #forgetSignal: (() => void) | undefined
  #onTimeout: (() => unknown) | undefined
  #onAbort: (() => void) | undefined

  /**
   * Starts to wait. `timedOut` returns the error at the end of the timeout; `aborted` is called after the signal has
   * rejected the promise. A signal that is already aborted ends it at once.
   */
  constructor(patience: Patience, timedOut: () => unknown, aborted?: () => void, timing: Timing = realTiming) {
    this.#patience = patience
    this.#timing = timing
    this.#startedAt = timing.now()
    this.#onTimeout = timedOut
    this.#onAbort = aborted
    this.promise = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
    })
    const { signal } = patience
    if (signal?.aborted) this.#abort()
    else if (signal) this.#forgetSignal = onAbort(signal, () => this.#abort())
    if (this.ended || patience.timeoutMs === Number.POSITIVE_INFINITY) return
    this.#alarm = timing.alarm(() => this.reject(this.#onTimeout?.()))
    this.#alarm.set(this.#startedAt + patience.timeoutMs)
  }

  /** True when it has ended, in any way. */
  get ended(): boolean {
    return this.#settle === undefined
  }

  /** The rest of the timeout, in ms; 0 when it is over, Infinity without a timeout. */
  get leftMs(): number {
    return Math.max(0, this.#startedAt + this.#patience.timeoutMs - this.#timing.now())
  }

  resolve(value: T): void {
    this.#end()?.resolve(value)
  }

  reject(error: unknown): void {
    this.#end()?.reject(error)
  }

  #abort(): void {
    const aborted = this.#onAbort
    const settle = this.#end()
    if (settle === undefined) return
    settle.reject(this.#patience.signal?.reason)
    aborted?.()
  }

  #end(): { resolve(value: T): void; reject(error: unknown): void } | undefined {
    const settle = this.#settle
    this.#settle = undefined
    this.#forgetSignal?.()
    this.#alarm?.clear()
    this.#forgetSignal = this.#onTimeout = this.#onAbort = undefined
    return settle
  }
}
