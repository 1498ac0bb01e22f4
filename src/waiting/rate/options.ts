import { type Duration, parseStoredOption } from '../../limiter/core/duration.js'
import { PolicyError, shown } from '../../limiter/core/errors.js'
import { keySegment } from '../../limiter/core/key-segment.js'
import { checkInteger, checkOptions, type OptionNames } from '../../limiter/core/options.js'
import { processId } from '../../limiter/core/short-key.js'

/** The keys of a shared rate, for one of its clients: see `open` in lua/waiting/rate/rates.lua. */
export class RateKeys {
  readonly #given: string | undefined
  #own: readonly string[] | undefined

  /** `clientId`: undefined for the name of this process, which is drawn when it is first needed. */
  constructor(
    readonly base: string,
    clientId: string | undefined,
  ) {
    this.#given = clientId
  }

  get clientId(): string {
    return this.#given ?? processId()
  }

  get own(): readonly string[] {
    this.#own ??= [this.base, `${this.base}:clients`, ...this.#group(''), ...this.of(this.clientId)]
    return this.#own
  }

  /** The log and the line of one client. */
  of(clientId: string): string[] {
    return this.#group(`:${keySegment(clientId)}`)
  }

  /** The record of a member of a line. */
  record(member: string): string {
    return `${this.base}:sent:${member}`
  }

  #group(end: string): string[] {
    return ['log', 'line', 'asks', 'meta'].map(kind => `${this.base}:${kind}${end}`)
  }
}

/** The rate to set. */
export interface RateOptions {
  /** Permits per interval; integer ≥ 1. */
  rate: number
  /** Length of the interval, like '1s'; at most ten years. */
  interval: Duration
  /** Whether all processes are counted together, or each `clientId` separately. Default 'overall'. */
  mode?: 'overall' | 'per-client'
  /**
   * How long rate and state live without use; at least `interval`. Undefined: for ever. What Redis needs to count a
   * repeated command once stays for a minute.
   */
  keepAlive?: Duration
}

const RATE_OPTIONS: OptionNames<RateOptions> = { rate: true, interval: true, mode: true, keepAlive: true }

/** A rate as stored in Redis. */
export interface RateConfig {
  /** Permits per interval. */
  readonly rate: number
  /** Length of the interval in ms. */
  readonly intervalMs: number
  /** `overall`: all processes are counted together. `per-client`: each `clientId` separately. */
  readonly mode: 'overall' | 'per-client'
  /** How long rate and state live without use, in ms; null: they never expire. */
  readonly keepAliveMs: number | null
}

/** What a shared rate holds; of a rate in mode 'per-client', what its client does. */
export interface RateView {
  /** Null if none is set. */
  readonly config: RateConfig | null
  /** The permits that are free now; 0 while others wait, and without a rate. */
  readonly available: number
  /** The number of requests that wait, in all processes. */
  readonly waiting: number
  /** For how long the first of them has waited, ms; 0 if none waits. */
  readonly longestWaitMs: number
}

/** Checks the rate; throws `PolicyError`, in which `method` names the called method. */
export function parseRate(options: RateOptions, method: string): RateConfig {
  if (typeof options !== 'object' || options === null) {
    throw new PolicyError(`${method}: rate ${shown(options)}: expected an object, like { rate: 10, interval: '1s' }`)
  }
  checkOptions(method, options, RATE_OPTIONS, "{ rate: 10, interval: '1s' }")
  const { rate, interval, mode = 'overall', keepAlive } = options
  checkInteger(rate, `${method}: rate`, "{ rate: 10, interval: '1s' }", 1)
  if (mode !== 'overall' && mode !== 'per-client') {
    throw new PolicyError(`${method}: mode ${shown(mode)}: expected 'overall' or 'per-client'`)
  }
  const intervalMs = spanOf(interval, `${method}: interval`)
  const keepAliveMs = keepAlive === undefined ? null : spanOf(keepAlive, `${method}: keepAlive`)
  if (keepAliveMs !== null && keepAliveMs < intervalMs) {
    throw new PolicyError(`${method}: keepAlive ${shown(keepAlive)}: expected at least the interval, ${intervalMs} ms`)
  }
  return { rate, intervalMs, mode, keepAliveMs }
}

/** Moments are stored in six bytes, which limits intervals to ten years. */
export function spanOf(duration: Duration, what: string): number {
  return parseStoredOption(duration, what, '1h')
}
