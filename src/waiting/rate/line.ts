import { CostError, NotInitializedError, StoreError, TimeoutError } from '../../limiter/core/errors.js'
import type { Patience } from '../../limiter/core/wait.js'
import type { RedisClient } from '../../redis/client.js'
import { portOf } from '../../redis/clients.js'
import { rateAsk } from '../../redis/scripts.js'
import { TimelyScripts } from '../../redis/timely-scripts.js'
import {
  type GrantFacts,
  isLateOnce,
  type LineAsk,
  type LineUser,
  SharedObjectLine,
  type Wanted,
} from '../line/line-user.js'
import { Mailbox } from '../line/mailbox.js'
import { WaitingLine } from '../line/waiting-line.js'
import type { RateKeys } from './options.js'

interface RateLineOptions {
  /** The name of the limiter in errors, like `SharedRateLimiter "mail"`. */
  readonly subject: string
  readonly prefix: string
  readonly keys: RateKeys
  /** The given clock's time as text; '' for the server's. */
  now(): string
}

/** The waiting line of one shared rate, as seen by one of its clients. */
export class RateLine extends SharedObjectLine implements LineUser<number> {
  /** The stamp of the last change after which earlier grants count no more: `known_since` in rates.lua. */
  readonly width = 1
  readonly isLate = isLateOnce
  readonly #line: WaitingLine<number>

  constructor(
    client: RedisClient,
    readonly options: RateLineOptions,
  ) {
    const { subject, prefix } = options
    const hear = () => this.#line.hear()
    super(subject, portOf(client, subject), new Mailbox(client, prefix, { hear, live: hear }))
    this.#line = new WaitingLine(this)
  }

  /** The key of the server's record of this process. */
  get record(): string {
    return this.options.keys.record(this.#line.member)
  }

  /** The beginning of the channel names of all processes. */
  get channel(): string {
    return this.mailbox.channel
  }

  /**
   * Waits for permits; the signal must not be aborted yet. Resolves to the moment of the grant, in ms by the server's
   * clock. Rejects with `TimeoutError` (at once if the turn would come too late), the signal's reason, `CostError` for
   * more than the rate, `NotInitializedError`, `StoreError`.
   */
  wait(permits: number, patience: Patience): Promise<number> {
    return this.#line.wait(permits, '', patience)
  }

  /** Sends pending changes before any other command, so that commands arrive in the order of the calls. */
  flush(): void {
    this.#line.flush()
  }

  /** The rate has ended or is about to: the server keeps no record of this process beyond it. */
  forget(): void {
    this.#line.forget()
  }

  /** Rejects all waiters; resolves when they have left the line. */
  close(): Promise<void> {
    return this.#line.close(new StoreError(`${this.subject} was closed while this waited`))
  }

  send({ member, replaces, words, copies }: LineAsk, endsAt: number): Promise<unknown> {
    const { keys, now } = this.options
    const records = [keys.record(member), keys.record(replaces === '' ? member : replaces)]
    const nowText = now()
    return TimelyScripts.of(this.port).runForLine({
      script: rateAsk,
      keys: [...keys.own, ...records],
      args: until => [nowText, keys.clientId, this.channel, ...words, until],
      endsAt,
      byServerClock: nowText === '',
      copies,
    })
  }

  grant(_: Wanted, { at }: GrantFacts): number {
    return at
  }

  refusal({ cost }: Wanted, waitMs: number, most: number): Error {
    const { subject } = this
    if (waitMs === -1)
      return new CostError(`${subject}: permits ${cost}: more than the rate, ${most}, waiting would not help`)
    if (waitMs < 0) return unset(subject)
    return new TimeoutError(`${subject}: the turn would come in ${waitMs} ms, after the timeout`, {
      retryAfterMs: waitMs,
    })
  }

  timedOut(_: Wanted, timeoutMs: number): Error {
    return new TimeoutError(`${this.subject}: no permit was free within ${timeoutMs} ms`)
  }

  ended(): Error {
    return unset(this.subject)
  }
}

export function unset(subject: string): NotInitializedError {
  return new NotInitializedError(`${subject}: no rate is set; set one with trySetRate({ rate: 10, interval: '1s' })`)
}
