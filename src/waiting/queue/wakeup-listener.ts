import type { Blocking, RedisClient } from '../../redis/client.js'
import { blockingOf, portOf } from '../../redis/clients.js'
import { Reopening } from '../../redis/subscriber.js'

/** The duration of one block. It is limited so that a silent connection is noticed. */
const BLOCK_S = 2
/** A connection that answers neither a block nor a connect for this long is replaced, even if TCP reports no error. */
const SILENCE_MS = 3000
/** A process that waits again within this time reuses its connection. */
const LINGER_MS = 1000

/** Which of the two woken processes this one is: the second asks only in case the first is stopped or busy. */
export type Wakeup = 'first' | 'second'

/** Receives the wake-ups, and whether they can come. */
export interface WakeupUser {
  woken(wakeup: Wakeup): void
  /** Nobody was woken for as long as one block lasts, two seconds. */
  idle(): void
  /** `silentMs`: for how long nothing was heard; 0 if the connection failed at once. */
  failed(error: unknown, silentMs: number): void
  works(): void
}

/**
 * Waits for wake-ups on a key of the queue, on a connection of its own. A lost or silent connection is replaced while
 * the client is connected, which counts as a wake-up, because one may have been missed. It does not keep the process
 * alive; what fails is reported and tried again.
 */
export class WakeupListener {
  readonly #open: ReturnType<typeof blockingOf>
  readonly #key: string
  readonly #user: WakeupUser
  #connection: Blocking | undefined
  #wanted = false
  #connecting = false
  #blocked = false
  #closed = false
  readonly #reopening: Reopening
  #linger: ReturnType<typeof setTimeout> | undefined

  constructor(client: RedisClient, key: string, user: WakeupUser) {
    this.#open = blockingOf(client)
    this.#reopening = new Reopening(portOf(client, 'DelayQueue'), () => this.#connect())
    this.#key = key
    this.#user = user
  }

  /** False if the client provides no connection for blocking: then this process is never woken. */
  get able(): boolean {
    return this.#open !== undefined
  }

  /** True while no wake-up can be missed. */
  get listening(): boolean {
    return this.#blocked
  }

  listen(): void {
    if (this.#closed) return
    this.#wanted = true
    clearTimeout(this.#linger)
    this.#linger = undefined
    if (this.#connection === undefined) {
      if (this.#open !== undefined) this.#reopening.request()
    } else if (!this.#connecting && !this.#blocked) this.#block(this.#connection)
  }

  /** No receiver waits any more. A block in progress ends by itself. */
  rest(): void {
    this.#wanted = false
    if (this.#linger !== undefined || this.#closed) return
    this.#linger = setTimeout(() => {
      this.#linger = undefined
      this.#reopening.cancel()
      this.#drop()
    }, LINGER_MS)
    this.#linger.unref?.()
  }

  close(): void {
    this.#closed = true
    this.#wanted = false
    clearTimeout(this.#linger)
    this.#reopening.cancel()
    this.#drop()
  }

  #drop(): void {
    const connection = this.#connection
    this.#connection = undefined
    this.#connecting = this.#blocked = false
    connection?.close()
  }

  #connect(): void {
    if (!this.#wanted) return
    const connection = this.#open?.(this.#key)
    if (connection === undefined) {
      this.#reopening.lost()
      return
    }
    this.#connection = connection
    this.#connecting = true
    within(connection, connection.connect()).then(
      () => {
        if (this.#connection !== connection) return
        this.#connecting = false
        if (!this.#wanted) return
        this.#block(connection)
        this.#user.woken('first')
      },
      error => this.#lost(connection, error),
    )
  }

  #block(connection: Blocking): void {
    this.#blocked = true
    within(connection, connection.pop(this.#key, BLOCK_S)).then(
      member => {
        if (this.#connection !== connection) return
        this.#blocked = false
        this.#reopening.worked()
        this.#user.works()
        if (member !== undefined) this.#user.woken(member === 'second' ? 'second' : 'first')
        else if (this.#wanted) {
          this.#block(connection)
          this.#user.idle()
        }
      },
      error => this.#lost(connection, error),
    )
  }

  #lost(connection: Blocking, error: unknown): void {
    if (this.#connection !== connection) return
    this.#drop()
    if (this.#closed || !this.#wanted) return
    this.#user.failed(error, error instanceof Silence ? SILENCE_MS : 0)
    this.#reopening.lost()
  }
}

class Silence extends Error {}

/** Closes the connection when it has been silent for too long. Some clients then leave pending calls unanswered. */
function within<T>(connection: Blocking, answer: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      connection.close()
      reject(new Silence('the connection is silent'))
    }, SILENCE_MS)
    timer.unref?.()
    answer.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}
