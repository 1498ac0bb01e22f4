import type { Observer } from '../limiter/core/observer.js'
import { Guarded } from '../limiter/guarded.js'
import type { RedisClient } from './client.js'
import { portOf, redisWarnings } from './clients.js'
import { notConnected } from './replies.js'

/** The name of a limit over Redis, and what it does during an outage: for errors and warnings. */
interface LimitOverRedis {
  readonly name: string
  readonly meanwhile: string
}

/**
 * Guards the calls of one limit to Redis. An outage is reported to the observer, or by process warnings if there is
 * none.
 */
export function guardRedis(
  client: RedisClient,
  deadlineMs: number,
  observer: Observer | undefined,
  { name, meanwhile }: LimitOverRedis,
): Guarded {
  const port = portOf(client, name)
  const warnings = observer === undefined ? redisWarnings(client, meanwhile) : undefined
  return new Guarded(deadlineMs, { observer, warnings, lost: () => notConnected(port.state()) })
}

/** How often to check that Redis answers while requests wait over Redis. */
const CHECK_EVERY_MS = 1000

/** The reason of a wait that ends early because Redis is gone. */
export const OUTAGE = Symbol('outage')

/** Ends waits over Redis when Redis no longer answers. */
export class OutageAborter {
  /** The controllers that end the waits. */
  readonly #waits = new Set<AbortController>()
  readonly #answers: () => Promise<boolean>
  #timer: ReturnType<typeof setInterval> | undefined
  #checking = false

  /** `answers` sends a command to Redis. It resolves to false if there was no answer within the deadline. */
  constructor(answers: () => Promise<boolean>) {
    this.#answers = answers
  }

  /**
   * Runs `wait` until `signal` is aborted or Redis is gone: then the signal passed to `wait` is aborted, with `OUTAGE`
   * as its reason.
   */
  async during<T>(signal: AbortSignal | undefined, wait: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const ending = new AbortController()
    const end = () => ending.abort(signal?.reason)
    if (signal?.aborted) end()
    signal?.addEventListener('abort', end, { once: true })
    this.#waits.add(ending)
    this.#timer ??= setInterval(() => this.check(), CHECK_EVERY_MS)
    this.#timer.unref?.()
    try {
      return await wait(ending.signal)
    } finally {
      signal?.removeEventListener('abort', end)
      this.#waits.delete(ending)
      if (this.#waits.size === 0) {
        clearInterval(this.#timer)
        this.#timer = undefined
      }
    }
  }

  /** Checks now, if any request waits; two failures in a row end all waits. */
  async check(): Promise<void> {
    if (this.#checking || this.#waits.size === 0) return
    this.#checking = true
    try {
      if ((await this.#answers()) || (await this.#answers())) return
      for (const ending of this.#waits) ending.abort(OUTAGE)
    } finally {
      this.#checking = false
    }
  }
}
