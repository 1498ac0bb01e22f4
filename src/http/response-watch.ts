import { LONGEST_TIMER_MS } from '../limiter/core/clock.js'

/** How the response ended. */
export interface ResponseEnd {
  /** False: the client had gone before the handler ended the response, or the service broke the response off. */
  readonly completed: boolean
  /** False: the handler had not ended the response when the time was over; `res.statusCode` may mean nothing. */
  readonly ended: boolean
}

interface EndOptions {
  /**
   * How long the listener waits for the handler after the client went away, or for a client that takes nothing of a
   * response that cannot go on without it, ms. 0: no time for the handler, any time for the client; Infinity: without
   * bound.
   */
  readonly withinMs: number
  /** Default false. true: once the client has gone, a stream that is detached from the response ends it as well. */
  readonly orDetached?: boolean
}

const EXPIRED: ResponseEnd = Object.freeze({ completed: false, ended: false })

/** The connection that a response is written to. */
export interface ResponseConnection {
  /** True if the client has gone: further output does not reach it. */
  readonly gone: boolean
  /** True if the response cannot go on before the client has taken more of it, or if nobody sends it. */
  readonly stuck: boolean
  /** A number that changes when the client takes something. */
  readonly taken: number
  /** Starts reporting to the watch. */
  watch(): void
  /** Stops reporting, and removes all listeners. */
  unwatch(): void
}

interface Waiting {
  readonly listener: (end: ResponseEnd) => void
  readonly withinMs: number
  readonly orDetached: boolean
  timer: NodeJS.Timeout | undefined
}

/**
 * Decides when a request has ended: when its handler has ended the response, or at the latest a given time after its
 * client has gone or has taken the last byte.
 *
 * Independent of the kind of response. The service's side reports `end`, `handOver` and `holdUp`, the client's side
 * `leave` and `detach`. Its timers do not keep the process alive; none is left after all listeners were called.
 */
export class ResponseWatch {
  readonly #client: ResponseConnection
  readonly #waiting = new Set<Waiting>()
  #end: ResponseEnd | undefined
  #gone = false
  #streamed = false
  #handedOver = false
  /**
   * Of a response that was held up: what its client had taken when it was looked at last, and since when it takes
   * nothing.
   */
  #taken = 0
  #tookAt: number | undefined

  constructor(clientOf: (watch: ResponseWatch) => ResponseConnection) {
    this.#client = clientOf(this)
  }

  /** True if the client has gone: further output does not reach it. */
  get gone(): boolean {
    return this.#gone || this.#client.gone
  }

  /** True if the handler has ended the response. */
  get ended(): boolean {
    return this.#end !== undefined
  }

  /** True if there are listeners for the end. */
  get listened(): boolean {
    return this.#waiting.size > 0
  }

  /** True if the header was sent before the handler ended the response: that duration depends on its client, too. */
  get streamed(): boolean {
    return this.#streamed
  }

  /**
   * Calls the listener once, at the end; at once if that has happened already. The returned function takes the listener
   * back.
   */
  onEnd({ withinMs, orDetached = false }: EndOptions, listener: (end: ResponseEnd) => void): () => void {
    if (this.#end !== undefined) {
      listener(this.#end)
      return () => {}
    }
    const waiting: Waiting = { listener, withinMs, orDetached, timer: undefined }
    if (this.#waiting.size === 0) this.#client.watch()
    this.#waiting.add(waiting)
    if (this.gone) {
      this.leave()
      this.#bound(waiting)
    } else if (this.#tookAt !== undefined) this.#bound(waiting)
    return () => this.#forget(waiting)
  }

  /** Resolves to true after `ms`, or to false as soon as the client has gone or the response has ended. */
  stays(ms: number): Promise<boolean> {
    return new Promise(resolve => {
      const timer = setTimeout(
        () => {
          forget()
          resolve(true)
        },
        Math.min(ms, LONGEST_TIMER_MS),
      )
      const forget = this.onEnd({ withinMs: 0 }, () => {
        clearTimeout(timer)
        resolve(false)
      })
    })
  }

  /** The handler has ended the response, or no handler will. Only the first call counts. */
  end(completed = !this.gone, streamed = false): void {
    if (this.#end !== undefined) return
    this.#streamed = streamed
    this.#end = { completed, ended: true }
    for (const waiting of [...this.#waiting]) this.#call(waiting, this.#end)
  }

  /**
   * The handler has returned a response that the runtime is to send: if the client goes now, the handler ends nothing
   * any more.
   */
  handOver(): void {
    if (this.#end !== undefined) return
    this.#handedOver = true
    if (this.gone) this.end(false)
    else this.holdUp()
  }

  /** From now on the response waits for its client, which may take nothing for ever. */
  holdUp(): void {
    if (this.#end !== undefined || this.#gone || this.#waiting.size === 0) return
    this.#taken = this.#client.taken
    this.#tookAt = performance.now()
    for (const waiting of this.#waiting) this.#bound(waiting)
  }

  /** The client has gone. */
  leave(): void {
    if (this.#gone || this.#end !== undefined) return
    this.#gone = true
    if (this.#handedOver) this.end(false)
    for (const waiting of [...this.#waiting]) {
      clearTimeout(waiting.timer)
      waiting.timer = undefined
      this.#bound(waiting)
    }
  }

  /** A stream that was piped into the response was detached. Ignored while the client is there: another may follow. */
  detach(): void {
    if (!this.gone || this.#end !== undefined) return
    this.leave()
    for (const waiting of [...this.#waiting]) if (waiting.orDetached) this.#call(waiting, EXPIRED)
  }

  /** The end of the response will never be known: calls all listeners. */
  expire(): void {
    for (const waiting of [...this.#waiting]) this.#call(waiting, EXPIRED)
  }

  #bound(waiting: Waiting): void {
    if (waiting.timer !== undefined || !this.#waiting.has(waiting)) return
    if (waiting.withinMs > 0) this.#ringIn(waiting, waiting.withinMs)
    else if (this.#gone) this.#call(waiting, EXPIRED)
  }

  #ringIn(waiting: Waiting, ms: number): void {
    if (ms === Number.POSITIVE_INFINITY) return
    waiting.timer = setTimeout(() => this.#ring(waiting), Math.min(ms, LONGEST_TIMER_MS))
    waiting.timer.unref?.()
  }

  #ring(waiting: Waiting): void {
    waiting.timer = undefined
    if (!this.#gone && this.#client.gone) {
      this.leave()
      return
    }
    const leftMs = this.#gone ? 0 : this.#lastTookAt() + waiting.withinMs - performance.now()
    if (leftMs > 0) this.#ringIn(waiting, leftMs)
    else this.#call(waiting, EXPIRED)
  }

  /**
   * When the client took something last, as far as is known: bytes that it took since the last look count as taken now.
   */
  #lastTookAt(): number {
    const { stuck, taken } = this.#client
    if (!stuck || taken !== this.#taken || this.#tookAt === undefined) {
      this.#taken = taken
      this.#tookAt = performance.now()
    }
    return this.#tookAt
  }

  #call(waiting: Waiting, end: ResponseEnd): void {
    if (this.#forget(waiting)) waiting.listener(end)
  }

  /** False if it was called or removed before. */
  #forget(waiting: Waiting): boolean {
    clearTimeout(waiting.timer)
    const known = this.#waiting.delete(waiting)
    if (known && this.#waiting.size === 0) this.#client.unwatch()
    return known
  }
}
