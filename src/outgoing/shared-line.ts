import { Alarm } from '../limiter/core/alarms.js'
import { keySegment } from '../limiter/core/key-segment.js'
import { BoundedMap, getOrMake } from '../limiter/core/maps.js'
import type { Guarded } from '../limiter/guarded.js'
import type { ClientPort, RedisClient } from '../redis/client.js'
import { portOf } from '../redis/clients.js'
import { keyRoot } from '../redis/keys.js'
import { budgetAsk } from '../redis/scripts.js'
import { AskedTooLate, TimelyScripts } from '../redis/timely-scripts.js'
import { Mailbox } from '../waiting/line/mailbox.js'
import { Account, type Places } from './account.js'
import { BudgetAsk, foreignOf, keyOf, type Resource } from './budget-ask.js'
import type { Call } from './call.js'
import { Departure, type Keeper, LEASE_MS } from './departure.js'
import { CallLine, type Group, type Kind, type LongestWait, type Waiter } from './line.js'
import { OwnUnits } from './own-units.js'
import { LOOK_EVERY_MS } from './pause.js'

/** How many budgets and places an ask names because their counts have changed: the next one names others. */
const MOST_NEWS = 100
/**
 * How many budgets and places an ask names so that the calls of other processes which wait for them keep their turns.
 */
const MOST_NAMED = 24
/** How long to wait after a failure before the server is asked again. */
const REST_MS = 200
/** The answer to an ask that came to Redis after its last moment. */
const LATE = Symbol('late')
/** The answer to an ask that came again. */
const NOT_NEW = '0'

/** Asks Redis for the calls of this process to one partner and those that are narrower: one script at a time. */
class Asker {
  readonly #line: SharedLine
  readonly #root: string
  readonly #keys: readonly [string, string, string]
  readonly #mailbox: Mailbox
  readonly #alarm = new Alarm(() => this.schedule())
  /** Rings when Redis is to be told what this process counts, although nobody waits: that keeps no process alive. */
  readonly #tells = new Alarm(() => this.schedule(), false)
  readonly #seen = new BoundedMap<string, Resource>(MOST_NAMED)
  /** What this process counts, by key. */
  readonly #own = new Map<string, OwnUnits>()
  readonly #ownOf = new WeakMap<Resource, OwnUnits>()
  /** Until when Redis keeps what is held, by `performance.now()`. */
  #leaseUntil = 0
  /** How far the server's clock is ahead of `performance.now()`, at most; undefined: it has not answered yet. */
  #offset: number | undefined
  #number = 0
  #isScheduled = false
  #inFlight = false
  #again = false
  #listens = false
  /**
   * The last ask has not named budgets for which calls of other processes wait: the next one does, so that they are
   * told what is free.
   */
  #mustName = false
  #restsUntil = 0

  constructor(line: SharedLine, root: string) {
    this.#line = line
    this.#root = root
    const base = keyRoot('politeFetch', 'line', 'outgoing', line.prefix)
    this.#mailbox = new Mailbox(line.client, line.prefix, {
      hear: text => this.#comeIn(Number(text) || 0),
      live: () => this.#comeIn(0),
    })
    const own = `${base}:${keySegment(root)}`
    this.#keys = [own, `${own}:asks`, `${own}:sent:${this.#mailbox.address}`]
  }

  /** Where what its calls take is counted, to be told to Redis. */
  ownOf(one: Account | Places): OwnUnits {
    const known = this.#ownOf.get(one)
    if (known !== undefined && this.#own.get(known.key) === known) return known
    const key = keyOf(one, this.#line.prefix)
    const own = getOrMake(this.#own, key, () => new OwnUnits(key, one))
    this.#ownOf.set(one, own)
    return own
  }

  /** Calls count otherwise than Redis was told, and it must know so soon. */
  changed(one: Account | Places, withinMs: number): void {
    this.ownOf(one).changed()
    if (withinMs < 1) this.schedule()
    else this.#tellIn(withinMs)
  }

  /** Calls may have begun or ended to wait. */
  look(): void {
    if (this.#listens || this.#line.hasWaiters(this.#root)) this.schedule()
  }

  /** Asks at the end of this turn of the event loop. */
  schedule(): void {
    if (this.#inFlight) this.#again = true
    else if (performance.now() < this.#restsUntil) this.#comeIn(this.#restsUntil - performance.now())
    else if (!this.#isScheduled) {
      this.#isScheduled = true
      setImmediate(() => {
        this.#isScheduled = false
        this.#ask()
      })
    }
  }

  #comeIn(ms: number): void {
    if (ms <= 0) this.schedule()
    else this.#alarm.ringBy(performance.now() + ms)
  }

  #tellIn(ms: number): void {
    this.#tells.ringBy(performance.now() + ms)
  }

  /** What this process holds, and is to keep although it waits for nothing. */
  #holds(): boolean {
    for (const { spent } of this.#own.values()) if (spent.held > 0) return true
    return false
  }

  async #ask(): Promise<void> {
    if (this.#inFlight) return
    const { guarded, port } = this.#line
    this.#alarm.clear()
    const kinds = this.#kinds()
    this.#renew()
    const hasNews = [...this.#own.values()].some(({ isTold }) => !isTold)
    if (kinds.length === 0 && !hasNews && !this.#listens && !this.#mustName) return
    if (!guarded.mayAsk()) {
      this.#rest()
      return
    }
    this.#inFlight = true
    this.#again = false
    const ask = this.#next(kinds)
    const named = [...ask.resources.keys()].flatMap(key => this.#own.get(key) ?? [])
    const versions = named.map(({ version }) => version)
    const { address, channel } = this.#mailbox
    const words = ['', address, String(++this.#number), channel, ...this.#words(ask), String(LEASE_MS)]
    const call = TimelyScripts.of(port).run({
      script: budgetAsk,
      does: 'ask for the calls to a partner',
      keys: [...this.#keys, ...ask.keys],
      args: until => [...words, String(MOST_NAMED), until],
      endsAt: ask.at + guarded.deadlineMs,
      server: port.serverOf(port.slotOf(this.#keys[0])),
      byServerClock: true,
    })
    // That this process was busy says nothing of Redis.
    const inTime = call.catch(error => (error instanceof AskedTooLate ? LATE : Promise.reject(error)))
    try {
      const reply = await guarded.hold(inTime)
      this.#inFlight = false
      if (String(reply) === NOT_NEW || reply === LATE) {
        // Of a copy that came first, nobody knows what it was answered.
        this.schedule()
        return
      }
      for (const [index, own] of named.entries()) own.told(versions[index])
      this.#read(String(reply), ask)
    } catch {
      this.#inFlight = false
      this.#rest()
    }
  }

  /** Redis is to keep what is held for another lease, if a third of the last one is over. */
  #renew(): void {
    const now = performance.now()
    if (!this.#holds()) return
    if (this.#leaseUntil < now + (2 / 3) * LEASE_MS) {
      this.#leaseUntil = now + LEASE_MS
      for (const own of this.#own.values()) if (own.spent.held > 0) own.changed()
    }
    this.#tellIn(this.#leaseUntil - (2 / 3) * LEASE_MS - now)
  }

  /** The moments of its rows count from the server's time at which it was asked, as far as that is known. */
  #words(ask: BudgetAsk): string[] {
    const offset = this.#offset ?? -ask.at
    const base = Math.floor(ask.at + offset)
    const words = ask.words(key => this.#own.get(key)?.row(ask.at, this.#leaseUntil, base, offset) ?? '')
    words[1] = `${this.#offset === undefined ? '' : base};${words[1]}`
    return words
  }

  /** The calls that wait for budgets and places, and not for the end of a pause. */
  #kinds(): Kind[] {
    return this.#line.kindsOf(this.#root).filter(kind => {
      const { call } = kind.first as Waiter
      const pauseMs = call.pauseMs()
      const ownMs = (call.notBefore ?? 0) - performance.now()
      if (pauseMs > 0) this.#comeIn(Math.min(pauseMs, LOOK_EVERY_MS))
      else if (ownMs > 0) this.#comeIn(ownMs)
      return pauseMs === 0 && ownMs <= 0
    })
  }

  /** Redis does not answer: calls leave by what this process knows, until it does. */
  #rest(): void {
    this.#restsUntil = performance.now() + REST_MS
    this.#line.goAlone(this.#root)
    if (this.#line.kindsOf(this.#root).length > 0) this.#comeIn(REST_MS)
    else if ([...this.#own.values()].some(({ isTold }) => !isTold)) this.#tellIn(REST_MS)
    this.#listen(false)
  }

  #next(kinds: readonly Kind[]): BudgetAsk {
    const ask = new BudgetAsk(this.#line.prefix)
    for (const kind of kinds) ask.addCalls(kind)
    let news = 0
    for (const [key, own] of this.#own) {
      own.spent.update(ask.at)
      if (own.isTold && own.spent.sum === 0) this.#own.delete(key)
      else if (!own.isTold && news++ < MOST_NEWS) ask.numberOf(own.resource)
    }
    if (news > MOST_NEWS) ask.hasMore = true
    for (const [key, one] of ask.resources) {
      // What was used last is forgotten last.
      this.#seen.delete(key)
      this.#seen.set(key, one)
    }
    for (const one of [...this.#seen.values()].reverse()) if (ask.resources.size < MOST_NAMED) ask.numberOf(one)
    return ask
  }

  #read(reply: string, ask: BudgetAsk): void {
    const { at, resources: named, questions, hasMore } = ask
    const [text, ...unnamed] = reply.split('\n')
    const [head, granted = '', waits = '', used = ''] = text.split(',')
    const [serverNow, nextMs] = head.split(' ').map(Number)
    const now = performance.now()
    // The server's clock showed this after the ask, and before its answer.
    const isSame = this.#offset !== undefined && this.#offset >= serverNow - now && this.#offset <= serverNow - at
    if (!isSame) this.#offset = serverNow - at
    const resources = [...named.values()]
    const usedUnits = numbersOf(used)
    for (const [index, one] of resources.entries()) if (one instanceof Account) one.heard(usedUnits[index], now)
    // Calls of other processes wait for these: with these named, they keep their turns.
    for (const one of unnamed.map(foreignOf)) this.#seen.set(one.key, one)
    this.#mustName = unnamed.length > 0 && named.size + unnamed.length <= MOST_NAMED
    const left = numbersOf(granted)
    for (const order of left) this.#letLeave(ask.leaves(order), at)
    const told = numbersOf(waits)
    for (const [index, waiter] of this.#mustName ? [] : questions.entries()) {
      const cause = resources[told[2 * index + 1] - 1]
      const account = cause instanceof Account ? cause : undefined
      if (!waiter.wait.ended) this.#line.judgeShared(waiter, { account, waitMs: told[2 * index] })
    }
    const stillWait = this.#kinds().length > 0
    this.#listen(stillWait)
    if (this.#again || this.#mustName || (hasMore && (left.length > 0 || questions.length > 0 || !stillWait)))
      this.schedule()
    else if (stillWait) this.#comeIn(Math.max(1, at + nextMs - now))
  }

  /**
   * Redis lets a call leave that was asked for at this moment. If it does not leave, the next ask, which does not count
   * it, gives its units back.
   */
  #letLeave(waiter: Waiter, askedAt: number): void {
    const { call } = waiter
    const now = performance.now()
    // Redis may have lost its data, or another server may have taken over: this process has its own count.
    const waitMs = call.places.every(places => places.fits()) ? waitInProcess(call, now) : REST_MS
    if (waitMs > 0) call.notBefore = now + waitMs
    else if (this.#line.leaves(waiter, askedAt)) return
    for (const one of [...call.charges.map(({ account }) => account), ...call.places]) this.changed(one, 0)
  }

  #listen(listens: boolean): void {
    if (listens === this.#listens) return
    this.#listens = listens
    if (listens) this.#mailbox.hold()
    else this.#mailbox.release()
  }
}

/**
 * The calls of this process that wait, in one line with those of all processes that share a Redis: first come, first
 * served. While Redis does not answer, calls leave by what this process has counted, which includes all that it took
 * over Redis.
 */
export class SharedLine extends CallLine {
  readonly port: ClientPort
  /** One for each of the user's partners with limits, at most: the widest of a call's. */
  readonly #askers = new Map<string, Asker>()

  constructor(
    readonly client: RedisClient,
    readonly guarded: Guarded,
    readonly prefix = 'spillway',
  ) {
    super()
    this.port = portOf(client, 'politeFetch')
  }

  protected override look(group: Group): void {
    for (const { first } of group.kinds.values()) if (first !== undefined) this.#askerOf(first.call)
    for (const name of group.partners) this.#askers.get(name)?.look()
    if (this.guarded.failing) super.look(group)
  }

  /** Redis has failed. */
  goAlone(root: string): void {
    const group = this.groups.get(root)
    if (group === undefined) return
    this.look(group)
    const now = performance.now()
    for (const kind of [...group.kinds.values()]) {
      for (const waiter of [...kind]) if (!waiter.isJudged) this.judge(waiter, this.longestWait(waiter, now))
    }
  }

  hasWaiters(root: string): boolean {
    for (const { first } of this.groups.get(root)?.kinds.values() ?? []) {
      if (first?.call.partners[0] === root) return true
    }
    return false
  }

  /** The kinds of calls that wait and whose widest partner is this one. */
  kindsOf(root: string): Kind[] {
    const kinds: Kind[] = []
    for (const kind of this.groups.get(root)?.kinds.values() ?? []) {
      if (kind.first?.call.partners[0] === root) kinds.push(kind)
    }
    return kinds
  }

  judgeShared(waiter: Waiter, longest: LongestWait): void {
    super.judge(waiter, longest)
  }

  /** The call leaves, which Redis has counted since this moment. False: it does not wait any more. */
  leaves(waiter: Waiter, askedAt: number): boolean {
    const { call } = waiter
    return this.depart(waiter, () => new Departure(call, askedAt, this.keeperOf(call)))
  }

  /** Redis tells how long the call would wait. */
  protected override judge(waiter: Waiter, longest: LongestWait): void {
    if (this.guarded.failing) super.judge(waiter, longest)
  }

  /** Redis is to be told of what leaves without it. */
  protected override departureOf(call: Call, now: number): Departure {
    const departure = super.departureOf(call, now)
    const asker = this.#askerOf(call)
    for (const { account } of call.charges) asker.changed(account, 0)
    for (const places of call.places) asker.changed(places, 0)
    return departure
  }

  protected override keeperOf(call: Call): Keeper {
    if (call.partners.length === 0) return super.keeperOf(call)
    const asker = this.#askerOf(call)
    return {
      ledgersOf: one => [one.spent, asker.ownOf(one).spent],
      changed: (one, withinMs) => asker.changed(one, withinMs),
      look: () => this.look(this.groupOf(call)),
    }
  }

  #askerOf({ partners: [root] }: Call): Asker {
    let asker = this.#askers.get(root)
    if (asker === undefined) {
      asker = new Asker(this, root)
      this.#askers.set(root, asker)
    }
    return asker
  }
}

/** In how many ms the units of a call fit into what this process counts by itself. */
function waitInProcess({ charges }: Call, now: number): number {
  let longest = 0
  for (const { account, units } of charges) {
    account.update(now)
    if (!account.fits(units)) longest = Math.max(longest, 1, account.waitMs(now, 0, units))
  }
  return longest
}

function numbersOf(list: string): number[] {
  return list === '' ? [] : list.split(' ').map(Number)
}
