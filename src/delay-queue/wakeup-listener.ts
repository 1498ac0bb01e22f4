import type { Blocking, OpenBlocking } from '../redis/blocking.js'

/** How long one block lasts at most. */
const BLOCK_S = 20
/** A server ends a block late by its own tick; a connection that says nothing for longer is dead, whatever TCP thinks. */
const WATCHDOG_MS = BLOCK_S * 1000 + 2000
const FIRST_RETRY_MS = 50
const LONGEST_RETRY_MS = 1000
/** Who waits again soon need not connect again. */
const LINGER_MS = 1000

/**
 * Sleeps on the wake-up key of a queue, on a connection of its own, and calls when it is woken, or when it may have slept through:
 * a connection lost is opened again. It does not keep the process alive, and never fails: an outage is silence, then a call.
 */
export class WakeupListener {
  readonly #open: OpenBlocking | undefined
  readonly #key: string
  readonly #woken: () => void
  #connection: Blocking | undefined
  #wanted = false
  #blocked = false
  #opening = false
  #closed = false
  #failures = 0
  #retry: ReturnType<typeof setTimeout> | undefined
  #linger: ReturnType<typeof setTimeout> | undefined

  constructor(open: OpenBlocking | undefined, key: string, woken: () => void) {
    this.#open = open
    this.#key = key
    this.#woken = woken
  }

  /** False where there is no connection to sleep on: then nobody is woken. */
  get able(): boolean {
    return this.#open !== undefined
  }

  /** True while nothing is missed. */
  get asleep(): boolean {
    return this.#blocked
  }

  sleep(): void {
    if (this.#closed) return
    this.#wanted = true
    clearTimeout(this.#linger)
    this.#linger = undefined
    if (this.#connection === undefined) this.#connect()
    else if (!this.#blocked) this.#block(this.#connection)
  }

  /** Nobody waits any more; the block that is under way is left to end by itself. */
  rest(): void {
    this.#wanted = false
    if (this.#linger !== undefined || this.#closed) return
    this.#linger = setTimeout(() => {
      this.#linger = undefined
      this.#drop()
    }, LINGER_MS)
    this.#linger.unref()
  }

  close(): void {
    this.#closed = true
    this.#wanted = false
    clearTimeout(this.#linger)
    clearTimeout(this.#retry)
    this.#drop()
  }

  #drop(): void {
    const connection = this.#connection
    this.#connection = undefined
    this.#blocked = false
    connection?.close()
  }

  #connect(): void {
    if (this.#opening || this.#retry !== undefined) return
    const opened = this.#open?.()
    if (opened === undefined) {
      if (this.#open !== undefined) this.#retryLater()
      return
    }
    this.#opening = true
    opened.then(
      connection => {
        this.#opening = false
        if (!this.#wanted) return connection.close()
        this.#connection = connection
        this.#failures = 0
        this.#block(connection)
        // What was said before may have been missed.
        this.#woken()
      },
      () => {
        this.#opening = false
        this.#retryLater()
      },
    )
  }

  #block(connection: Blocking): void {
    this.#blocked = true
    const watchdog = setTimeout(() => connection.close(), WATCHDOG_MS)
    watchdog.unref()
    connection.pop(this.#key, BLOCK_S).then(
      woken => {
        clearTimeout(watchdog)
        if (this.#connection !== connection) return
        this.#blocked = false
        if (woken) this.#woken()
        else if (this.#wanted) this.#block(connection)
      },
      () => {
        clearTimeout(watchdog)
        if (this.#connection !== connection) return
        this.#drop()
        this.#retryLater()
      },
    )
  }

  #retryLater(): void {
    if (this.#closed || !this.#wanted || this.#retry !== undefined) return
    const ms = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** this.#failures++)
    this.#retry = setTimeout(() => {
      this.#retry = undefined
      if (this.#wanted) this.#connect()
    }, ms)
    this.#retry.unref()
  }
}
