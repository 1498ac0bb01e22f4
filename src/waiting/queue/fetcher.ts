import { Alarm, RetryDelay } from '../../limiter/core/alarms.js'
import { afterIo, type Clock, quietTimer } from '../../limiter/core/clock.js'
import { getOrMake } from '../../limiter/core/maps.js'
import { randomText } from '../../limiter/core/short-key.js'
import type { RedisClient } from '../../redis/client.js'
import { type Commands, clockArgument } from '../../redis/commands.js'
import { forgetSent, queueSettleAndFetch, queueVersion, queueWake } from '../../redis/scripts.js'
import {
  FetchNumber,
  type FetchReply,
  type FetchRequest,
  FetchSchedule,
  fetchArguments,
  parseFetchReply,
  returnOf,
  type Settlement,
  type Taken,
} from './fetch.js'
import { PeerWaker } from './peer-waker.js'
import { PendingCalls } from './pending-calls.js'
import { QueueWatches } from './queue-watch.js'
import { type MessageReceiver, Receivers } from './receivers.js'
import { CLOCK, queueKeys, WAKE } from './record.js'
import { type Wakeup, WakeupListener } from './wakeup-listener.js'

/** Most messages, and most settlements, in one call. */
const MOST_TAKEN = 100
const MOST_SETTLED = 100
/** If another `receive` follows within this time, the fetcher keeps its state. */
const LINGER_MS = 20

/** What the one call of this process does: a `planned` one is sent at the end of this turn of the event loop. */
type Call = 'none' | 'planned' | 'in flight'

/**
 * What the next call looks for, each more than the one before. `nothing`: the timer or a wake-up will tell. `unknown`:
 * they may have missed messages. `due`: there are some that are due. `ended`: also for deliveries whose visibility has
 * ended.
 */
type Search = 'nothing' | 'unknown' | 'due' | 'ended'
const SEARCHES: readonly Search[] = ['nothing', 'unknown', 'due', 'ended']

/** `watcher`: other processes may rely on this one to take the next message. */
type Role = 'guest' | 'watcher'

/**
 * Takes messages from a queue for the whole process: one script call at a time, which settles deliveries and takes due
 * messages. Between calls it waits for its own timer (which is more exact than a blocking command of the server), or
 * for a wake-up from another process. A process that stays idle looks every two seconds: those that were woken may be
 * stopped.
 *
 * Its state is a `Call`, a `Search` and a `Role`:
 * - what settles, offers room or searches plans a call; its answer plans the next one, or sets the timer;
 * - a call that fetches takes the search with it; an answer that tells of more, the timer, a wake-up and a failure
 *   bring it back;
 * - a process that was woken, or that searched for ended visibilities and stays, is a watcher until it hands over.
 */
export class Fetcher {
  readonly #commands: Commands
  readonly #keys: readonly string[]
  readonly #keyBase: string
  #ownKey: string | undefined
  readonly #clock: Clock | undefined
  readonly #deadTtlMs: number
  readonly #listener: WakeupListener
  readonly #peers: PeerWaker
  readonly #number = new FetchNumber()
  readonly #schedule = new FetchSchedule()
  readonly #alarm = new Alarm(() => this.#ring())
  readonly #receivers = new Receivers()
  readonly #settlements: PendingCalls<Settlement, number>
  readonly watches = new QueueWatches()
  #call: Call = 'none'
  #search: Search = 'ended'
  #role: Role = 'guest'
  /** Resolves when the last call has ended: true if it was answered. */
  #answered: Promise<boolean> = Promise.resolve(true)
  readonly #retryDelay = new RetryDelay()
  #retry: ReturnType<typeof setTimeout> | undefined
  #linger: ReturnType<typeof setTimeout> | undefined

  /** `deadTtlMs`: for how long dead letters are kept; -1 for good. */
  constructor(client: RedisClient, commands: Commands, keyBase: string, clock: Clock | undefined, deadTtlMs: number) {
    this.#commands = commands
    this.#settlements = new PendingCalls(commands)
    this.#keys = queueKeys(keyBase)
    this.#keyBase = keyBase
    this.#clock = clock
    this.#deadTtlMs = deadTtlMs
    this.#listener = new WakeupListener(client, this.#keys[WAKE], {
      woken: wakeup => this.#woken(wakeup),
      idle: () => this.#idle(),
      failed: (error, silentMs) => this.#unwakeable(error, silentMs),
      works: () => {
        for (const receiver of this.#receivers) receiver.wakeupWorks?.()
      },
    })
    const isSaturated = () => this.#knowsDue && !this.#receivers.hasRoom()
    this.#peers = new PeerWaker(() => this.#passOn().catch(() => {}), isSaturated)
  }

  /** Drawn at random, which some runtimes forbid while a program loads. */
  get #fetchKey(): string {
    this.#ownKey ??= `${this.#keyBase}:fetch:${randomText(12)}`
    return this.#ownKey
  }

  join(receiver: MessageReceiver): void {
    clearTimeout(this.#linger)
    if (this.#receivers.size === 0) this.#searchFor('unknown')
    this.#receivers.add(receiver)
    this.offer()
  }

  leave(receiver: MessageReceiver): void {
    this.#receivers.delete(receiver)
    // Settlements that waited to share the next fetch are sent alone.
    if (this.#settlements.size > 0) this.#plan()
    if (this.#receivers.size > 0) return
    this.#alarm.clear()
    this.#listener.rest()
    if (this.#number.unread) this.#retryUnread(this.#retryDelay.next())
    clearTimeout(this.#linger)
    this.#linger = setTimeout(() => void this.handOver(), LINGER_MS)
    this.#linger.unref?.()
  }

  /** There is room again: asks, unless nothing is known to be due. */
  offer(): void {
    if (!this.#listener.listening && this.#receivers.size > 0) this.#searchFor('unknown')
    this.#plan()
  }

  ask(): void {
    this.#searchFor('ended')
    this.#plan()
  }

  /**
   * Settles a delivery: 0 if it is stale, else 1, or for `extend` the new end of its visibility. Rejects with
   * `StoreError`.
   */
  settle(settlement: Settlement): Promise<number> {
    this.#plan()
    return this.#settlements.add(settlement)
  }

  /** A message becomes due in `delayMs`, and this process need not be woken for it. */
  expect(delayMs: number): void {
    if (this.#schedule.expect(delayMs)) this.#setAlarm()
  }

  /**
   * Waits for the call in flight, then hands over what this process watches. Takes at most one second. Never rejects.
   */
  retire(): Promise<void> {
    return this.#commands.closing(this.#answered.then(() => this.handOver()))
  }

  async close(): Promise<void> {
    this.#peers.close()
    this.#listener.close()
    await this.#answered
    // The first call repeats the fetch whose answer was lost, the second puts its messages back. If Redis does not
    // answer, their visibility ends.
    for (let calls = 0; calls < 2; calls++) {
      if (!this.#number.unread && this.#settlements.size === 0) continue
      this.#settleAndFetch()
      if (!(await this.#answered)) break
    }
    this.#alarm.clear()
    clearTimeout(this.#retry)
    clearTimeout(this.#linger)
    await this.handOver()
  }

  /**
   * Without receivers, lets other processes watch for the next due messages, and deletes the record of the last fetch.
   * Never rejects.
   */
  async handOver(): Promise<void> {
    if (this.#receivers.size > 0 || this.#number.unread) return
    const handsOver = this.#role === 'watcher' && (this.#schedule.knowsNext || this.#knowsDue)
    const forgets = this.#number.used && this.#call !== 'in flight'
    this.#role = 'guest'
    await Promise.allSettled([
      handsOver && this.#passOn(),
      forgets && this.#commands.run(forgetSent, [this.#fetchKey], [String(this.#number.value)]),
    ])
  }

  /** Wakes other processes for messages that this one does not take. */
  async #passOn(): Promise<void> {
    this.#schedule.handOver()
    this.#setAlarm()
    await this.#commands.run(queueWake, this.#keys, [])
  }

  /** The next call searches for this at least. */
  #searchFor(what: Search): void {
    if (SEARCHES.indexOf(what) > SEARCHES.indexOf(this.#search)) this.#search = what
  }

  /** Messages are due, as far as this process knows. */
  get #knowsDue(): boolean {
    return this.#search === 'due' || this.#search === 'ended'
  }

  /** A call at the end of this turn of the event loop, so that everything in the turn shares it. */
  #plan(): void {
    if (this.#call !== 'none' || this.#mayShare()) return
    this.#call = 'planned'
    afterIo(() => this.#settleAndFetch())
  }

  /** True if settlements can wait for a fetch that follows in a moment. */
  #mayShare(): boolean {
    const isSoon = this.#search === 'nothing' && this.#schedule.dueWithShare
    return isSoon && this.#settlements.size < MOST_SETTLED && this.#receivers.hasRoom()
  }

  #ring(): void {
    this.#searchFor(this.#schedule.ring())
    if (!this.#receivers.hasRoom()) this.#peers.wakeIfSaturated()
    this.#settleAndFetch()
  }

  #woken(wakeup: Wakeup): void {
    this.#role = 'watcher'
    if (!this.#receivers.hasRoom()) {
      this.#searchFor('ended')
      this.#peers.wake()
    } else if (wakeup === 'second') {
      this.#schedule.askAsSecond()
      this.#setAlarm()
    } else {
      this.#searchFor('ended')
      this.#settleAndFetch()
    }
  }

  /** Nobody was woken while the last block lasted, or those who were are stopped: then the queue has changed. */
  #idle(): void {
    if (this.#schedule.looksAnyway || this.#call !== 'none') {
      this.ask()
      return
    }
    this.#commands.run(queueVersion, [this.#keys[CLOCK]], []).then(
      version => {
        if (!this.#schedule.hasSeen(Number(version))) this.ask()
      },
      () => this.ask(),
    )
  }

  /** Until the connection for wake-ups is back, asks as often as that is tried. */
  #unwakeable(error: unknown, silentMs: number): void {
    for (const receiver of this.#receivers) receiver.wakeupFailed?.(error, silentMs)
    this.ask()
  }

  #settleAndFetch(): void {
    if (this.#call === 'in flight') return
    const settlements = this.#settlements.take(MOST_SETTLED)
    const wants = this.#search === 'nothing' ? [] : this.#receivers.wants(MOST_TAKEN)
    // Without a receiver, a fetch whose answer was lost is repeated only to put its messages back.
    const fetches = wants.length > 0 || (this.#number.unread && this.#receivers.size === 0)
    if (settlements.length === 0 && !fetches) {
      this.#call = 'none'
      this.#setAlarm()
      return
    }
    this.#call = 'in flight'
    const askedAt = performance.now()
    const mode = this.#mode(wants.length > 0, askedAt)
    if (wants.length > 0) this.#search = 'nothing'
    if (mode === 'watch') {
      this.#schedule.looks()
      this.#role = 'watcher'
    }
    const args = fetchArguments({
      clock: clockArgument(this.#clock),
      mode,
      number: fetches ? this.#number.value : 0,
      deadTtlMs: this.#deadTtlMs,
      settlements: settlements.map(({ content }) => content),
      visibilities: wants.map(({ visibilityMs, beginsLater }) => (beginsLater ? -visibilityMs : visibilityMs)),
    })
    this.#answered = this.#commands.run(queueSettleAndFetch, [...this.#keys, this.#fetchKey], args).then(
      answer => {
        this.#call = 'none'
        this.#retryDelay.reset()
        const reply = parseFetchReply(answer, mode, askedAt)
        this.watches.buried(reply.buried)
        for (const [i, settlement] of settlements.entries()) settlement.resolve(reply.settled[i])
        if (fetches) this.#fetched(reply, wants, askedAt)
        if (this.#settlements.size > 0 || (this.#search !== 'nothing' && this.#receivers.hasRoom())) this.#plan()
        if (!this.#isPlanned()) this.#setAlarm()
        return true
      },
      error => {
        this.#call = 'none'
        for (const settlement of settlements) settlement.reject(error)
        if (fetches) this.#unfetched(wants, error, performance.now() - askedAt)
        // The timer may have rung while a call without a fetch was in flight.
        if (this.#settlements.size > 0 || (!fetches && this.#search !== 'nothing')) this.#plan()
        return false
      },
    )
  }

  #isPlanned(): boolean {
    return this.#call === 'planned'
  }

  #mode(wants: boolean, askedAt: number): FetchRequest['mode'] {
    if (wants && (this.#search === 'ended' || this.#schedule.overdueLook(askedAt)))
      return this.#receivers.stay() ? 'watch' : 'look'
    return this.#schedule.knowsNext ? '' : 'sweep'
  }

  #fetched(reply: FetchReply, wants: readonly MessageReceiver[], askedAt: number): void {
    this.#number.answered()
    const more = reply.nextAt <= reply.nowMs
    this.#schedule.learn(reply, askedAt)
    if (more) this.#searchFor('due')
    const shares = new Map<MessageReceiver, Taken[]>(wants.map(receiver => [receiver, []]))
    for (const [i, message] of reply.taken.entries()) {
      const receiver = wants[i] as MessageReceiver | undefined
      // A repeated fetch may bring messages that another receiver asked for.
      const fits = receiver !== undefined && (receiver.beginsLater || !message.notBegun)
      if (fits) shares.get(receiver)?.push(message)
      else this.settle(returnOf(message)).catch(() => {})
    }
    for (const [receiver, share] of shares) receiver.take(share, more)
    // Idle processes may help, unless this one can continue at once.
    if (more && !this.#receivers.hasRoom()) this.#peers.wakeIfSaturated()
  }

  #unfetched(wants: readonly MessageReceiver[], error: unknown, tookMs: number): void {
    this.#number.failed()
    this.#searchFor('ended')
    for (const receiver of new Set(wants)) receiver.failed(error, tookMs)
    const ms = this.#retryDelay.next()
    if (this.#receivers.size > 0) this.#alarm.set(performance.now() + ms)
    else this.#retryUnread(ms)
  }

  #retryUnread(ms: number): void {
    clearTimeout(this.#retry)
    const unread = () => this.#number.unread && this.#receivers.size === 0
    this.#retry = quietTimer(() => unread() && this.#settleAndFetch(), ms)
  }

  #setAlarm(): void {
    if (this.#receivers.size === 0) return
    // A process without room must not use up a wake-up that another could use.
    if (this.#receivers.hasRoom()) this.#listener.listen()
    this.#alarm.set(this.#schedule.at(this.#listener.able))
  }
}

interface Held {
  readonly fetcher: Fetcher
  holders: number
}

const FETCHERS = new WeakMap<RedisClient, Map<string, Held>>()

/**
 * The fetcher of a queue: one for each client of this process, shared by all queue objects, so that they share one
 * connection for wake-ups. `release` closes it after its last user.
 */
export function holdFetcher(
  client: RedisClient,
  commands: Commands,
  keyBase: string,
  clock: Clock | undefined,
  deadTtlMs: number,
): { fetcher: Fetcher; release: () => Promise<void> } {
  const fetchers = getOrMake(FETCHERS, client, () => new Map())
  const held = getOrMake(fetchers, keyBase, () => ({
    fetcher: new Fetcher(client, commands, keyBase, clock, deadTtlMs),
    holders: 0,
  }))
  held.holders++
  return {
    fetcher: held.fetcher,
    async release() {
      if (--held.holders > 0) return
      fetchers.delete(keyBase)
      await held.fetcher.close()
    },
  }
}
