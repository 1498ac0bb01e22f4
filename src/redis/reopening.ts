import type { ClientPort } from './client.js'

const FIRST_MS = 50
const LONGEST_MS = 5000

/**
 * Decides when a further connection beside a client is opened: only while the client itself is connected, so that the client's own strategy
 * decides how often a dead server is asked. If the server accepts the client but not this connection, the attempts become rarer: 50 ms apart,
 * then twice as long each time, at most 5 s.
 */
export class Reopening {
  readonly #port: ClientPort
  readonly #open: () => void
  #delayMs = FIRST_MS
  #workedAt = Number.POSITIVE_INFINITY
  /** Defined while the delay after a failure lasts. */
  #timer: ReturnType<typeof setTimeout> | undefined
  /** Defined while an attempt waits for the client. */
  #forgetReady: (() => void) | undefined

  /** `open` makes one attempt. The caller then reports `worked` or `lost`. */
  constructor(port: ClientPort, open: () => void) {
    this.#port = port
    this.#open = open
  }

  /** A connection is wanted now. Does nothing while an attempt is due already. */
  request(): void {
    if (this.#timer !== undefined || this.#forgetReady !== undefined) return
    if (this.#port.state() === 'ready') {
      this.#open()
      return
    }
    this.#forgetReady = this.#port.onReady(() => {
      this.cancel()
      this.#open()
    })
  }

  /** The server serves the connection; may be called often. */
  worked(): void {
    this.#workedAt = Math.min(this.#workedAt, performance.now())
  }

  /** The connection was lost, or could not be made: another one is wanted after the delay. */
  lost(): void {
    if (this.#timer !== undefined) return
    // A connection that ends as soon as it works is no better than one that fails.
    if (performance.now() - this.#workedAt >= this.#delayMs) this.#delayMs = FIRST_MS
    this.#workedAt = Number.POSITIVE_INFINITY
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.request()
    }, this.#delayMs)
    this.#timer.unref()
    this.#delayMs = Math.min(LONGEST_MS, this.#delayMs * 2)
  }

  /** No connection is wanted any more. */
  cancel(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#forgetReady?.()
    this.#forgetReady = undefined
  }
}
