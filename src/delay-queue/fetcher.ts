import type { Clock } from '../core/clock.js'
import { blockingOf } from '../redis/blocking-of.js'
import type { RedisClient } from '../redis/client.js'
import type { Commands } from '../redis/commands.js'
import { queueTurn, queueWake } from '../redis/scripts.js'
import { ServerClock } from '../redis/server-clock.js'
import { Alarm } from '../waiting/alarm.js'
import { queueKeys, WAKE } from './keys.js'
import { OverflowWaker } from './overflow-waker.js'
import { parseTurn, returnsOf, type Settlement, type Taken, type TurnReply, turnArguments } from './turn.js'
import { WakeupListener } from './wakeup-listener.js'

/** Somebody of this process who takes messages. */
export interface MessageReceiver {
  readonly visibilityMs: number
  /** How many it can take now. */
  room(): number
  /** What it got of a turn in which it had room, perhaps nothing; `more` if others are due already. */
  take(taken: readonly Taken[], more: boolean): void
  failed(error: unknown): void
}

interface PendingSettlement extends Settlement {
  resolve(settled: number): void
  reject(error: unknown): void
}

/** Bounds of one call. */
const MOST_SETTLEMENTS = 100
const MOST_TAKEN = 100
/** What nobody told is found after so long: a wake-up that was lost, the deliveries of a process that died. */
const SAFETY_MS = 20_000
/** Without a connection to be woken on. */
const UNWAKEABLE_MS = 1000
/** How far a process steps back that finds others always faster, at first and at most. */
const STEP_BACK_MS = 4
const LONGEST_STEP_BACK_MS = 16
/** A settlement waits so long for the next question, to share its call. */
const SHARE_MS = 3
const FIRST_RETRY_MS = 50
const LONGEST_RETRY_MS = 1000

/**
 * The one place where this process takes messages from a queue, for all who want some: one script call at a time, which settles
 * what has been done and takes what is due. In between it sleeps: until the next message is due, by a timer of its own, because a
 * server ends a block only at its next tick; or until it is woken.
 */
export class Fetcher {
  readonly #commands: Commands
  readonly #keys: readonly string[]
  readonly #clock: Clock | undefined
  readonly #sleeper: WakeupListener
  readonly #relay: OverflowWaker
  readonly #serverClock = new ServerClock()
  readonly #alarm = new Alarm(() => this.#ring())
  readonly #takers = new Set<MessageReceiver>()
  #settlements: PendingSettlement[] = []
  /** True when there may be something to take that we have not asked for. */
  #asking = true
  #looking = true
  /** True when something is known to be due. */
  #overdue = false
  #inTurn = false
  #call: Promise<unknown> = Promise.resolve()
  #scheduled = false
  #closed = false
  #failures = 0
  /** Moments of `performance.now()`. */
  #nextAt = Number.POSITIVE_INFINITY
  #nextEndAt = Number.POSITIVE_INFINITY
  #lookedAt = Number.NEGATIVE_INFINITY
  #stepBackMs = 0
  #rang = false

  constructor(client: RedisClient, commands: Commands, keyBase: string, clock: Clock | undefined) {
    this.#commands = commands
    this.#keys = queueKeys(keyBase)
    this.#clock = clock
    this.#sleeper = new WakeupListener(blockingOf(client), this.#keys[WAKE], () => this.#woken())
    this.#relay = new OverflowWaker(
      () => this.#overdue && !this.#closed && !this.#hasRoom(),
      () => {
        this.#nextAt = Number.POSITIVE_INFINITY
        this.#setAlarm()
        commands.run(queueWake, this.#keys, []).catch(() => {})
      },
    )
  }

  join(taker: MessageReceiver): void {
    this.#takers.add(taker)
    this.offer()
  }

  leave(taker: MessageReceiver): void {
    this.#takers.delete(taker)
    // What was to go with the next question goes alone.
    if (this.#settlements.length > 0) this.#nextTick()
    if (this.#takers.size > 0) return
    this.#alarm.clear()
    this.#sleeper.rest()
    this.#asking = true
  }

  /** There is room again. Asks, unless it is known that nothing is due. */
  offer(): void {
    if (!this.#sleeper.asleep || this.#takers.size === 0) this.#asking = true
    this.#nextTick()
  }

  /** Asks even if nothing is known to be due. */
  ask(): void {
    this.#asking = this.#looking = true
    this.#nextTick()
  }

  /** Settles a delivery: 0 if it is stale, else 1, or for `extend` the new end of its visibility. Rejects with `StoreError`. */
  settle(settlement: Settlement): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#settlements.push({ ...settlement, resolve, reject })
      this.#nextTick()
    })
  }

  /** A message will be due in so long that nobody is woken for. */
  expect(delayMs: number): void {
    const at = performance.now() + delayMs
    if (at >= this.#nextAt) return
    this.#nextAt = at
    this.#setAlarm()
  }

  /** When the call that is under way has been answered. */
  quiet(): Promise<unknown> {
    return this.#call
  }

  close(): void {
    this.#closed = true
    this.#alarm.clear()
    this.#sleeper.close()
  }

  /** At the end of this turn of the event loop, so that what it brings shares a call. */
  #nextTick(): void {
    if (this.#scheduled || this.#inTurn || this.#mayWait()) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      this.#turn()
    })
  }

  /** What is settled now can go with the question that is asked in a moment. */
  #mayWait(): boolean {
    const at = this.#nextAt + this.#stepBackMs
    return (
      !this.#asking &&
      at - performance.now() < SHARE_MS &&
      this.#settlements.length < MOST_SETTLEMENTS &&
      this.#hasRoom()
    )
  }

  #ring(): void {
    this.#rang = performance.now() >= this.#nextAt
    this.#asking = true
    if (this.#rang) {
      this.#overdue = true
      // Until it is asked, which may have to wait for room.
      this.#nextAt = Number.POSITIVE_INFINITY
      if (!this.#hasRoom()) this.#relay.nextTick()
    }
    this.#turn()
  }

  #woken(): void {
    this.#asking = this.#looking = true
    if (this.#closed) return
    if (this.#hasRoom()) this.#turn()
    else this.#relay.now()
  }

  #hasRoom(): boolean {
    for (const taker of this.#takers) if (taker.room() > 0) return true
    return false
  }

  /** Who takes, once for each message; in turn, so that one with much room leaves some to the others. */
  #wants(): MessageReceiver[] {
    if (!this.#asking) return []
    const wants: MessageReceiver[] = []
    let open = [...this.#takers].map(taker => ({ taker, room: taker.room() })).filter(({ room }) => room > 0)
    while (open.length > 0 && wants.length < MOST_TAKEN) {
      for (const each of open) {
        if (wants.length >= MOST_TAKEN) break
        wants.push(each.taker)
        each.room--
      }
      open = open.filter(({ room }) => room > 0)
    }
    return wants
  }

  #turn(): void {
    if (this.#inTurn) return
    const settlements = this.#settlements.splice(0, MOST_SETTLEMENTS)
    const wants = this.#wants()
    if (settlements.length === 0 && wants.length === 0) {
      this.#setAlarm()
      return
    }
    this.#inTurn = true
    const askedAt = performance.now()
    const overdue = askedAt >= this.#nextEndAt || askedAt - this.#lookedAt >= SAFETY_MS
    const look = wants.length > 0 && (this.#looking || overdue)
    if (wants.length > 0) this.#asking = this.#looking = false
    const rang = this.#rang
    this.#rang = false
    const clock = this.#clock === undefined ? '' : String(Math.floor(this.#clock.now()))
    const mode = look ? 'look' : this.#nextAt === Number.POSITIVE_INFINITY ? 'sweep' : ''
    const visibilities = wants.map(({ visibilityMs }) => visibilityMs)
    const args = turnArguments(clock, mode, settlements, visibilities)
    const late = (reply: unknown) => {
      for (const back of returnsOf(reply, askedAt)) this.settle(back).catch(() => {})
    }
    this.#call = this.#commands.run(queueTurn, this.#keys, args, late).then(
      reply => {
        this.#inTurn = false
        this.#failures = 0
        const turn = parseTurn(reply, look, askedAt)
        for (const [i, settlement] of settlements.entries()) settlement.resolve(turn.settled[i])
        if (wants.length > 0) this.#taken(turn, wants, askedAt, rang)
        this.#after()
      },
      error => {
        this.#inTurn = false
        for (const settlement of settlements) settlement.reject(error)
        if (wants.length > 0) {
          this.#asking = this.#looking = true
          for (const taker of new Set(wants)) taker.failed(error)
          // Not before: a client that fails at once would be asked without end.
          const ms = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** this.#failures++)
          if (this.#takers.size > 0) this.#alarm.set(performance.now() + ms)
        }
        if (this.#settlements.length > 0) this.#nextTick()
      },
    )
  }

  #taken(turn: TurnReply, wants: readonly MessageReceiver[], askedAt: number, rang: boolean): void {
    const { nowMs, nextAt, nextEndAt, taken } = turn
    const more = nextAt <= nowMs
    this.#learn(turn, askedAt)
    if (nextEndAt !== undefined) this.#lookedAt = askedAt
    for (const { untilHere } of taken) this.#nextEndAt = Math.min(this.#nextEndAt, untilHere)
    if (taken.length === 0) {
      if (rang) this.#stepBackMs = Math.min(LONGEST_STEP_BACK_MS, this.#stepBackMs * 2 || STEP_BACK_MS)
    } else if (taken.some(({ dueAt }) => nowMs - dueAt >= this.#stepBackMs)) {
      // It was left to us.
      this.#stepBackMs = 0
    }
    this.#overdue = more
    if (more) this.#asking = true
    const shares = new Map<MessageReceiver, Taken[]>(wants.map(taker => [taker, []]))
    for (const [i, message] of taken.entries()) shares.get(wants[i])?.push(message)
    for (const [taker, share] of shares) taker.take(share, more)
    // Whoever sleeps may help; unless we can go on at once ourselves.
    if (more && !this.#hasRoom()) this.#relay.nextTick()
  }

  #learn({ nowMs, nextAt, nextEndAt }: TurnReply, askedAt: number): void {
    const now = performance.now()
    this.#serverClock.learn(nowMs)
    // What is yet to come by the server's clock cannot be past by ours: the server's clock has been set back.
    if (nextAt > nowMs && (this.#serverClock.momentOf(nextAt) as number) <= askedAt) {
      this.#serverClock.forget()
      this.#serverClock.learn(nowMs)
    }
    const here = (at: number) => (at === Number.POSITIVE_INFINITY ? at : (this.#serverClock.momentOf(at) ?? now))
    this.#nextAt = here(nextAt)
    if (nextEndAt !== undefined) this.#nextEndAt = here(nextEndAt)
  }

  #after(): void {
    if (this.#settlements.length > 0 || (this.#asking && this.#hasRoom())) this.#nextTick()
    if (!this.#scheduled) this.#setAlarm()
  }

  #setAlarm(): void {
    if (this.#takers.size === 0 || this.#closed) return
    // Who cannot take anything must not take a wake-up away from those who can.
    if (this.#hasRoom()) this.#sleeper.sleep()
    const safetyMs = this.#sleeper.able ? SAFETY_MS : UNWAKEABLE_MS
    const safetyAt = performance.now() + safetyMs
    this.#alarm.set(Math.min(this.#nextAt + this.#stepBackMs, this.#nextEndAt, safetyAt))
  }
}
