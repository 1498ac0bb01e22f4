import { Alarm, RetryDelay } from '../../limiter/core/alarms.js'
import { afterIo, type Clock, quietTimer } from '../../limiter/core/clock.js'
import { getOrMake } from '../../limiter/core/maps.js'
import { randomText } from '../../limiter/core/short-key.js'
import type { RedisClient } from '../../redis/client.js'
import { type Commands, clockArgument } from '../../redis/commands.js'
import { forgetSent, queueSettleAndFetch } from '../../redis/scripts.js'
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
import { PendingCalls } from './pending-calls.js'
import { QueueWatches } from './queue-watch.js'
import { type MessageReceiver, Receivers } from './receivers.js'
import { queueKeys, WAKE } from './record.js'
import { PeerWaker } from './wakers.js'
import { type Wakeup, WakeupListener } from './wakeup-listener.js'

/** Most messages, and most settlements, in one call. */
const MOST_TAKEN = 100
const MOST_SETTLED = 100
/** If another `receive` follows within this time, the fetcher keeps its state. */
const LINGER_MS = 20

/**
 * Takes messages from a queue for the whole process: one script call at a time, which settles deliveries and takes due
 * messages. Between calls it waits for its own timer (which is more exact than a blocking command of the server), or
 * for a wake-up from another process.
 */
export class Fetcher {
  readonly #commands: Commands
  readonly #keys: readonly string[]
  readonly #fetchKey: string
  readonly #clock: Clock | undefined
  readonly #listener: WakeupListener
  readonly #peers: PeerWaker
  readonly #number = new FetchNumber()
  readonly #schedule = new FetchSchedule()
  readonly #alarm = new Alarm(() => this.#ring())
  readonly #receivers = new Receivers()
  readonly #settlements: PendingCalls<Settlement, number>
  /** True if there may be messages that were not asked for yet. */
  #asking = true
  #looking = true
  /** True if a message is known to be due. */
  #overdue = false
  #rang = false
  readonly watches = new QueueWatches()
  /** True if other processes may rely on this one to watch for the next message. */
  #watching = false
  #inFlight = false
  /** The last call failed. */
  #failed = false
  #call: Promise<unknown> = Promise.resolve()
  #scheduled = false
  #closed = false
  readonly #retryDelay = new RetryDelay()
  #retry: ReturnType<typeof setTimeout> | undefined
  #linger: ReturnType<typeof setTimeout> | undefined

  constructor(client: RedisClient, commands: Commands, keyBase: string, clock: Clock | undefined) {
    this.#commands = commands
    this.#settlements = new PendingCalls(commands)
    this.#keys = queueKeys(keyBase)
    this.#fetchKey = `${keyBase}:fetch:${randomText(12)}`
    this.#clock = clock
    this.#listener = new WakeupListener(client, this.#keys[WAKE], {
      woken: wakeup => this.#woken(wakeup),
      failed: (error, silentMs) => this.#unwakeable(error, silentMs),
      works: () => {
        for (const receiver of this.#receivers) receiver.wakeupWorks?.()
      },
    })
    const saturated = () => this.#overdue && !this.#receivers.hasRoom()
    this.#peers = new PeerWaker(commands, this.#keys, saturated, () => this.#passOn().catch(() => {}))
  }

  join(receiver: MessageReceiver): void {
    clearTimeout(this.#linger)
    this.#receivers.add(receiver)
    this.offer()
  }

  leave(receiver: MessageReceiver): void {
    this.#receivers.delete(receiver)
    // Settlements that waited to share the next fetch are sent alone.
    if (this.#settlements.size > 0) this.#nextTick()
    if (this.#receivers.size > 0) return
    this.#alarm.clear()
    this.#listener.rest()
    this.#asking = true
    if (this.#number.unread) this.#retryUnread(this.#retryDelay.next())
    clearTimeout(this.#linger)
    this.#linger = setTimeout(() => void this.handOver(), LINGER_MS)
    this.#linger.unref?.()
  }

  /** There is room again: asks, unless nothing is known to be due. */
  offer(): void {
    if (!this.#listener.listening || this.#receivers.size === 0) this.#asking = true
    this.#nextTick()
  }

  ask(): void {
    this.#asking = this.#looking = true
    this.#nextTick()
  }

  /**
   * Settles a delivery: 0 if it is stale, else 1, or for `extend` the new end of its visibility. Rejects with
   * `StoreError`.
   */
  settle(settlement: Settlement): Promise<number> {
    this.#nextTick()
    return this.#settlements.add(settlement)
  }

  /** A message becomes due in `delayMs`, and no process is woken for it. */
  expect(delayMs: number): void {
    if (this.#schedule.expect(delayMs)) this.#setAlarm()
  }

  /** A command of this process has woken other processes. */
  woke(): void {
    this.#peers.woke()
  }

  /**
   * Waits for the call in flight, then hands over what this process watches. Takes at most one second. Never rejects.
   */
  retire(): Promise<void> {
    return this.#commands.closing(this.#call.then(() => this.handOver()))
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#alarm.clear()
    this.#peers.close()
    this.#listener.close()
    clearTimeout(this.#retry)
    clearTimeout(this.#linger)
    await this.#call
    // The first call repeats the fetch whose answer was lost, the second puts its messages back. If Redis does not
    // answer, their visibility ends.
    for (let calls = 0; calls < 2; calls++) {
      if (!this.#number.unread && this.#settlements.size === 0) continue
      this.#failed = false
      this.#settleAndFetch()
      await this.#call
      if (this.#failed) break
    }
    await this.handOver()
  }

  /**
   * Without receivers, lets other processes watch for the next due messages, and deletes the record of the last fetch.
   * Never rejects.
   */
  async handOver(): Promise<void> {
    if (this.#receivers.size > 0 || this.#number.unread) return
    const handsOver = this.#watching && (this.#schedule.knowsNext || this.#overdue)
    const forgets = this.#number.used && !this.#inFlight
    this.#watching = false
    await Promise.allSettled([
      handsOver && this.#passOn(),
      forgets && this.#commands.run(forgetSent, [this.#fetchKey], [String(this.#number.value)]),
    ])
  }

  /** Wakes other processes for messages that this one does not take. */
  async #passOn(): Promise<void> {
    this.#schedule.handOver()
    this.#overdue = false
    this.#setAlarm()
    await this.#peers.wake()
  }

  /** Runs at the end of this turn of the event loop, so that everything in the turn shares a call. */
  #nextTick(): void {
    if (this.#scheduled || this.#inFlight || this.#mayShare()) return
    this.#scheduled = true
    afterIo(() => {
      this.#scheduled = false
      this.#settleAndFetch()
    })
  }

  /** True if settlements can wait for a fetch that follows in a moment. */
  #mayShare(): boolean {
    return (
      !this.#asking && this.#schedule.dueWithShare && this.#settlements.size < MOST_SETTLED && this.#receivers.hasRoom()
    )
  }

  #ring(): void {
    const { due, ended, second } = this.#schedule.ring()
    this.#rang = due
    this.#asking = true
    if (ended || second) this.#looking = true
    if (due || ended || second) {
      this.#overdue = true
      if (!this.#receivers.hasRoom()) this.#peers.passOnIfSaturated()
    }
    this.#settleAndFetch()
  }

  #woken(wakeup: Wakeup): void {
    if (this.#closed) return
    this.#watching = true
    if (!this.#receivers.hasRoom()) {
      this.#asking = this.#looking = true
      this.#peers.passOn()
    } else if (wakeup === 'second') {
      this.#schedule.askAsSecond()
      this.#setAlarm()
    } else {
      this.#asking = this.#looking = true
      this.#settleAndFetch()
    }
  }

  /** Until the connection for wake-ups is back, asks as often as that is tried. */
  #unwakeable(error: unknown, silentMs: number): void {
    for (const receiver of this.#receivers) receiver.wakeupFailed?.(error, silentMs)
    this.ask()
  }

  #settleAndFetch(): void {
    if (this.#inFlight) return
    const settlements = this.#settlements.take(MOST_SETTLED)
    const wants = this.#asking ? this.#receivers.wants(MOST_TAKEN) : []
    // Without a receiver, a fetch whose answer was lost is repeated only to put its messages back.
    const fetches = wants.length > 0 || (this.#number.unread && this.#receivers.size === 0)
    this.#inFlight = settlements.length > 0 || fetches
    if (!this.#inFlight) {
      this.#setAlarm()
      return
    }
    const askedAt = performance.now()
    const mode = this.#mode(wants.length > 0, askedAt)
    const rang = this.#rang
    if (wants.length > 0) this.#asking = this.#looking = this.#rang = false
    if (mode === 'watch') {
      this.#schedule.looks()
      this.#watching = true
    }
    const args = fetchArguments({
      clock: clockArgument(this.#clock),
      mode,
      number: fetches ? this.#number.value : 0,
      settlements: settlements.map(({ content }) => content),
      visibilities: wants.map(({ visibilityMs, beginsLater }) => (beginsLater ? -visibilityMs : visibilityMs)),
    })
    this.#call = this.#commands.run(queueSettleAndFetch, [...this.#keys, this.#fetchKey], args).then(
      answer => {
        this.#inFlight = false
        this.#retryDelay.reset()
        const reply = parseFetchReply(answer, mode, askedAt)
        if (mode === 'watch') this.#peers.came()
        if (reply.woken) this.#peers.woke()
        this.watches.buried(reply.buried)
        for (const [i, settlement] of settlements.entries()) settlement.resolve(reply.settled[i])
        if (fetches) this.#fetched(reply, wants, askedAt, rang)
        this.#after()
      },
      error => {
        this.#inFlight = false
        this.#failed = true
        for (const settlement of settlements) settlement.reject(error)
        if (fetches) this.#unfetched(wants, error, performance.now() - askedAt)
        if (this.#settlements.size > 0) this.#nextTick()
      },
    )
  }

  #mode(wants: boolean, askedAt: number): FetchRequest['mode'] {
    if (wants && (this.#looking || this.#schedule.overdueLook(askedAt)))
      return this.#receivers.stay() ? 'watch' : 'look'
    return this.#schedule.knowsNext ? '' : 'sweep'
  }

  #fetched(reply: FetchReply, wants: readonly MessageReceiver[], askedAt: number, rang: boolean): void {
    this.#number.answered()
    const more = reply.nextAt <= reply.nowMs
    this.#schedule.learn(reply, askedAt, rang)
    this.#overdue = more
    if (more) this.#asking = true
    const shares = new Map<MessageReceiver, Taken[]>(wants.map(receiver => [receiver, []]))
    for (const [i, message] of reply.taken.entries()) {
      const receiver = wants[i] as MessageReceiver | undefined
      // A repeated fetch may bring messages that another receiver asked for.
      const fits = receiver !== undefined && (receiver.beginsLater || !message.unbegun)
      if (fits) shares.get(receiver)?.push(message)
      else this.settle(returnOf(message)).catch(() => {})
    }
    for (const [receiver, share] of shares) receiver.take(share, more)
    // Idle processes may help, unless this one can continue at once.
    if (more && !this.#receivers.hasRoom()) this.#peers.passOnIfSaturated()
  }

  #unfetched(wants: readonly MessageReceiver[], error: unknown, tookMs: number): void {
    this.#number.failed()
    this.#asking = this.#looking = true
    for (const receiver of new Set(wants)) receiver.failed(error, tookMs)
    const ms = this.#retryDelay.next()
    if (this.#receivers.size > 0) this.#alarm.set(performance.now() + ms)
    else if (!this.#closed) this.#retryUnread(ms)
  }

  #retryUnread(ms: number): void {
    clearTimeout(this.#retry)
    const unread = () => this.#number.unread && this.#receivers.size === 0
    this.#retry = quietTimer(() => unread() && this.#settleAndFetch(), ms)
  }

  #after(): void {
    if (this.#settlements.size > 0 || (this.#asking && this.#receivers.hasRoom())) this.#nextTick()
    if (!this.#scheduled) this.#setAlarm()
  }

  #setAlarm(): void {
    if (this.#receivers.size === 0 || this.#closed) return
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
): { fetcher: Fetcher; release: () => Promise<void> } {
  const fetchers = getOrMake(FETCHERS, client, () => new Map())
  const held = getOrMake(fetchers, keyBase, () => ({
    fetcher: new Fetcher(client, commands, keyBase, clock),
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
