/** How the response ended. */
export interface ResponseEnd {
  /** False: the client had gone before the handler ended the response. */
  readonly completed: boolean
  /** False: the handler had not ended the response when the time was over; `res.statusCode` may mean nothing. */
  readonly ended: boolean
}

interface EndOptions {
  /** How long the listener waits for the handler after the client went away, ms. 0: not at all; Infinity: without bound. */
  readonly withinMs: number
  /** Default false. true: once the client has gone, a stream that is detached from the response ends it as well. */
  readonly orDetached?: boolean
}

/** Longer delays make `setTimeout` fire at once. */
const LONGEST_MS = 2 ** 31 - 1
const EXPIRED: ResponseEnd = Object.freeze({ completed: false, ended: false })

/** The connection that a response is written to. */
export interface Client {
  /** True if the client has gone: further output does not reach it. */
  readonly gone: boolean
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
 * Reports when the handler has ended a response, and limits how long that may take after the client has gone.
 *
 * Independent of the kind of response: a `Client` reports the end (`end`), the loss of the client (`leave`) and detached
 * streams (`detach`), while there are listeners. Its timers do not keep the process alive; none is left after all listeners were called.
 */
export class ResponseWatch {
  readonly #client: Client
  readonly #waiting = new Set<Waiting>()
  #end: ResponseEnd | undefined
  #gone = false
  #streamed = false

  constructor(clientOf: (watch: ResponseWatch) => Client) {
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
   * at once if that has happened already. The returned function removes the listener.
   * at once if that has happened already. The returned function takes the listener back.
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
    }
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
        Math.min(ms, LONGEST_MS),
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

  /** The client has gone. */
  leave(): void {
    if (this.#gone || this.#end !== undefined) return
    this.#gone = true
    for (const waiting of [...this.#waiting]) this.#bound(waiting)
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
    if (waiting.withinMs <= 0) this.#call(waiting, EXPIRED)
    else if (waiting.withinMs < Number.POSITIVE_INFINITY) {
      waiting.timer = setTimeout(() => this.#call(waiting, EXPIRED), Math.min(waiting.withinMs, LONGEST_MS))
      waiting.timer.unref?.()
    }
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
