import { Deadline } from '../../core/clock.js'
import { StoreError } from '../../core/errors.js'
import { notify, type Observer } from '../../core/observer.js'
import type { OutageWarnings } from '../../core/warnings.js'
import { AnswerWatch, CircuitBreaker } from '../../limiter/breaker.js'
import type { ClientPort, RedisClient } from '../../redis/client.js'
import { portOf, redisWarnings } from '../../redis/clients.js'
import { notConnected } from '../../redis/replies.js'

/** The name of the limit, and what it does during an outage: for errors and warnings. */
interface HealthUser {
  readonly name: string
  readonly meanwhile: string
}

/** Tracks whether Redis answers one limit within its deadline. Reports an outage to the observer, or by process warnings if there is none. */
export class RedisHealth {
  readonly #port: ClientPort
  readonly #breaker = new CircuitBreaker()
  readonly #deadline: Deadline
  readonly #observer: Observer | undefined
  readonly #answers: AnswerWatch | undefined
  readonly #warnings: OutageWarnings | undefined
  #failing = false

  constructor(
    client: RedisClient,
    readonly deadlineMs: number,
    observer: Observer | undefined,
    user: HealthUser,
  ) {
    this.#port = portOf(client, user.name)
    this.#observer = observer
    this.#answers = AnswerWatch.of(observer)
    this.#warnings = observer === undefined ? redisWarnings(client, user.meanwhile) : undefined
    this.#deadline = new Deadline(
      deadlineMs,
      () => this.#breaker.probeNow(),
      () => this.#breaker.silence(),
    )
  }

  /** True if there is no connection, or if the last command was not answered in time. */
  get failing(): boolean {
    return this.#failing || notConnected(this.#port.state()) !== undefined
  }

  /** Whether a command may be sent now: during an outage only an occasional probe. */
  mayAsk(): boolean {
    const error = notConnected(this.#port.state())
    const refused = error === undefined && !this.#breaker.admits(performance.now())
    if (error === undefined && !refused) return true
    if (error !== undefined) notify(this.#observer, 'storeFailed', error)
    this.#warnings?.failed(error)
    return false
  }

  /** Settles as the command does; `StoreError` if Redis fails or does not answer within the deadline. */
  async hold<Answer>(answer: Promise<Answer>): Promise<Answer> {
    const askedAt = performance.now()
    try {
      const value = await this.#deadline.hold(answer)
      const answeredAt = performance.now()
      this.#failing = false
      this.#answers?.answered(askedAt, answeredAt)
      if (this.#breaker.succeed(answeredAt)) notify(this.#observer, 'breakerClosed')
      this.#warnings?.answered()
      return value
    } catch (error) {
      if (error instanceof StoreError) this.#failed(error)
      throw error
    }
  }

  #failed(error: StoreError): void {
    this.#failing = true
    const opened = this.#breaker.fail(performance.now())
    notify(this.#observer, 'storeFailed', error)
    if (opened) notify(this.#observer, 'breakerOpened', error)
    this.#warnings?.failed(error)
  }
}
