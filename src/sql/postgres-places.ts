import { StoreError } from '../limiter/core/errors.js'
import type { PostgresPort, Row, SentStatement, SqlValue } from './postgres-port.js'

/** So many statements of a store wait for PostgreSQL at once. */
const MOST = 2
/**
 * A statement that is late is left alone, because it keeps its connection; after this the server is asked to end it.
 */
const CANCELLED_AFTER_MS = 4000
/** And so much later, if the server is still silent, its connection is dropped: one in each such time at most. */
const DROPPED_AFTER_MS = 1000
const DROPPED_EVERY_MS = 5000

/**
 * Bounds what a store asks of PostgreSQL. However long something is locked, slow or gone, at most two statements wait:
 * a place is free again when the last statement of its taker has been answered.
 */
export class PostgresPlaces {
  readonly port: PostgresPort
  #taken = 0
  #droppedAt = Number.NEGATIVE_INFINITY
  /** Called when a place becomes free. */
  onFree: () => void = () => {}

  constructor(port: PostgresPort) {
    this.port = port
  }

  /** Undefined: all are taken. */
  take(): PostgresPlace | undefined {
    if (this.#taken === MOST) return undefined
    this.#taken++
    return new PostgresPlace(
      this.port,
      sent => this.#giveUp(sent),
      () => {
        this.#taken--
        this.onFree()
      },
    )
  }

  #giveUp(sent: SentStatement): void {
    const now = performance.now()
    const waitMs = this.#droppedAt + DROPPED_EVERY_MS - now
    if (waitMs > 0) {
      const timer = setTimeout(() => this.#giveUp(sent), waitMs)
      timer.unref?.()
      sent.rows.then(
        () => clearTimeout(timer),
        () => clearTimeout(timer),
      )
      return
    }
    this.#droppedAt = now
    sent.drop(new StoreError(`${this.port.server} was silent for ${DROPPED_EVERY_MS / 1000} s`))
  }
}

/** The right to have one statement wait for PostgreSQL. */
export class PostgresPlace {
  #isWaiting = false
  #isLeft = false

  constructor(
    readonly port: PostgresPort,
    readonly giveUp: (sent: SentStatement) => void,
    readonly free: () => void,
  ) {}

  /**
   * Runs one statement. Rejects after `timeoutMs`: the statement then keeps its connection and this place until the
   * server has answered.
   */
  run(text: string, values: readonly SqlValue[], name: string | undefined, timeoutMs: number): Promise<readonly Row[]> {
    const sent = this.port.send(text, values, name)
    this.#isWaiting = true
    return new Promise((resolve, reject) => {
      let timer = setTimeout(() => {
        reject(new StoreError('the database did not answer in time'))
        const isDueMs = CANCELLED_AFTER_MS - timeoutMs
        const cancel = () => {
          sent.cancel()
          timer = setTimeout(() => this.giveUp(sent), DROPPED_AFTER_MS)
          timer.unref?.()
        }
        timer = setTimeout(cancel, Math.max(0, isDueMs))
        timer.unref?.()
      }, timeoutMs)
      const answered = () => {
        clearTimeout(timer)
        this.#isWaiting = false
        if (this.#isLeft) this.free()
      }
      sent.rows.then(
        rows => {
          answered()
          resolve(rows)
        },
        error => {
          answered()
          reject(error)
        },
      )
    })
  }

  /** Nothing more will be sent. */
  leave(): void {
    if (this.#isLeft) return
    this.#isLeft = true
    if (!this.#isWaiting) this.free()
  }
}
