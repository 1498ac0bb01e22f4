import type { RedisClient } from '../../redis/client.js'
import { notConnected } from '../../redis/replies.js'
import { Subscriber, type Subscription } from '../../redis/subscriber.js'
import { type Change, readChange } from './live-limit.js'
import type { LiveRecords, Position } from './live-records.js'

/** Interval of the check for missed changes, with and without a subscription. */
const CHECK_MS = 2000
const CHECK_DEAF_MS = 500
/** The delay after a failure, while the client is connected. */
const RETRY_MS = 250

/** Receives the followed changes. */
interface FollowerUser {
  /** Called for each change, in the order of their numbers; not for changes that `load` has already read. */
  apply(change: Change): void
  /** Called for each applied change, and for those that this process has made. */
  tell(change: Change): void
  /** Changes may be missing: reads everything again; `use` then applies it. */
  load(): Promise<Position & { use(): void }>
  /** Redis has answered. */
  answered(): void
  failed(error: Error): void
}

/**
 * Follows the changes of live limits, by numbered messages. A gap in the numbers, a new connection or a check every two
 * seconds reveals missed changes, which are then read from the log, or everything is read again.
 */
export class Follower {
  readonly #records: LiveRecords
  readonly #user: FollowerUser
  readonly #subscription: Subscription | undefined
  readonly #forgetReady: () => void
  /** The position of the applied changes; undefined before the first answer. */
  #known: Position | undefined
  /** The newest change that was applied individually since everything was read. */
  #applied = 0
  /** Server's clock − `performance.now()`. */
  #offsetMs = Date.now() - performance.now()
  #asking: Promise<void> | undefined
  /** Counts the requests: late answers from an old connection are ignored. */
  #run = 0
  #askAgain = false
  #timer: ReturnType<typeof setTimeout> | undefined
  #failure: Error | undefined
  #closed = false

  constructor(client: RedisClient, records: LiveRecords, user: FollowerUser) {
    this.#records = records
    this.#user = user
    // On a new connection, requests of the old one may be lost.
    this.#forgetReady = records.port.onReady(() => this.#catchUp())
    this.#subscription = Subscriber.of(client)?.subscription(records.keys.channel, {
      hear: line => this.#hear(line),
      live: () => this.ask(),
      refused: error => user.failed(error),
    })
    this.#subscription?.hold()
    this.#checkIn(0)
  }

  serverNowMs(): number {
    return performance.now() + this.#offsetMs
  }

  /** The identity of the followed data in Redis; '' before the first change, undefined before the first answer. */
  get epoch(): string | undefined {
    return this.#known?.epoch
  }

  isCurrent(epoch: string): boolean {
    return this.#known?.epoch === epoch
  }

  /**
   * Resolves when this process has read the present state, which connects a lazy client; rejects with `StoreError` if
   * it cannot.
   */
  async begin(): Promise<void> {
    if (this.#known === undefined) await (this.#asking ?? this.#catchUp(true))
    if (this.#known === undefined && this.#failure === undefined) await this.#catchUp(true)
    if (this.#known === undefined && this.#failure !== undefined) throw this.#failure
  }

  /**
   * Applies a change that this process has asked for at `askedAt`, by `performance.now()`; resolves when all before it
   * are applied as well.
   */
  async applyOwn(change: Change & { readonly nowMs: number }, askedAt: number): Promise<void> {
    this.#learn(change.nowMs, askedAt)
    const known = this.#known
    if (known !== undefined && known.epoch === change.epoch && known.seq >= change.seq) return
    if (this.#isNext(change)) return this.#apply(change)
    await this.ask()
    const now = this.#known
    const isRead = now !== undefined && now.epoch === change.epoch && now.seq >= change.seq
    if (isRead && this.#applied < change.seq) this.#user.tell(change)
  }

  /** Asks for missed changes; resolves when they are applied, or the request failed. */
  ask(): Promise<void> {
    if (this.#asking !== undefined) {
      this.#askAgain = true
      return this.#asking
    }
    return this.#catchUp()
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    clearTimeout(this.#timer)
    this.#forgetReady()
    this.#subscription?.release()
    this.#subscription?.close()
  }

  #catchUp(connects = false): Promise<void> {
    const asking = this.#ask(++this.#run, connects).finally(() => {
      if (this.#asking === asking) this.#asking = undefined
      if (!this.#closed) this.#checkIn(this.#failure ? RETRY_MS : this.#subscription?.live ? CHECK_MS : CHECK_DEAF_MS)
    })
    this.#asking = asking
    return asking
  }

  async #ask(run: number, connects: boolean): Promise<void> {
    do {
      this.#askAgain = false
      if (this.#closed) return
      const { port } = this.#records
      const state = port.state()
      if (state === 'starting' && !connects) {
        // `onReady` reports when it is connected.
        port.open()
        return
      }
      try {
        const refusal = notConnected(state)
        if (refusal) throw refusal
        await this.#read(run)
        if (run !== this.#run) return
        this.#failure = undefined
        this.#user.answered()
      } catch (error) {
        if (run !== this.#run) return
        this.#failure = error as Error
        if (!this.#closed) this.#user.failed(this.#failure)
        return
      }
    } while (this.#askAgain)
  }

  async #read(run: number): Promise<void> {
    const known = this.#known
    const askedAt = performance.now()
    if (known !== undefined) {
      const answer = await this.#records.since(known)
      if (run !== this.#run) return
      this.#learn(answer.nowMs, askedAt)
      if (answer.changes !== undefined) {
        for (const change of answer.changes) if (this.#isNext(change)) this.#apply(change)
        if (this.#known?.epoch === '') this.#known = { ...this.#known, epoch: answer.epoch }
        return
      }
    }
    // Messages that arrive while it loads make it ask again.
    this.#known = undefined
    const loaded = await this.#user.load()
    if (run !== this.#run) return
    this.#learn(loaded.nowMs, askedAt)
    loaded.use()
    this.#known = loaded
    this.#applied = 0
  }

  #hear(line: string): void {
    const change = readChange(line)
    if (change === undefined || this.#closed) return
    if (this.#isNext(change)) this.#apply(change)
    // This process also receives its own changes, after they were applied.
    else if (change.from !== this.#records.id) this.ask()
  }

  #isNext({ epoch, seq }: Change): boolean {
    const known = this.#known
    return known !== undefined && seq === known.seq + 1 && (epoch === known.epoch || known.epoch === '')
  }

  #apply(change: Change): void {
    this.#known = { nowMs: change.atMs, epoch: change.epoch, seq: change.seq }
    this.#applied = change.seq
    this.#user.apply(change)
    this.#user.tell(change)
  }

  /**
   * The server's clock showed `nowMs` after it was asked and before this. What was known stays as far as that is
   * possible: an answer that was read late tells little, and would make a temporary limit last longer here than
   * elsewhere.
   */
  #learn(nowMs: number, askedAt: number): void {
    const least = nowMs - performance.now()
    const most = nowMs + 1 - askedAt
    this.#offsetMs = Math.min(most, Math.max(least, this.#offsetMs))
  }

  #checkIn(ms: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#subscription?.check()
      this.ask()
    }, ms)
    this.#timer.unref?.()
  }
}
