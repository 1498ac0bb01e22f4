import type { Verdict } from '../../limiter/core/decision.js'
import type { StoreError } from '../../limiter/core/errors.js'
import type { Limit } from '../../limiter/core/limit.js'
import { STEPS_PER_INSERTION } from '../../limiter/core/maps.js'
import type { Observer } from '../../limiter/core/observer.js'
import type { Patience } from '../../limiter/core/wait.js'
import type { Charge } from '../../limiter/store.js'
import {
  type LineGuard,
  neverFits,
  type Outage,
  type StoreLines,
  type Turn,
  tooFar,
  tooLate,
  turnVerdict,
} from '../../limiter/store-lines.js'
import { isFault, notConnected } from '../../redis/replies.js'
import { acquire } from '../../redis/scripts.js'
import { waitersChannel } from '../../redis/store/changes.js'
import type { RedisCounts } from '../../redis/store/redis-counts.js'
import type { StoreScripts } from '../../redis/store/store-scripts.js'
import { limitArguments } from '../../redis/store/wire-format.js'
import { type GrantFacts, isLateOnce, type LineAsk, type LineUser, type Wanted } from './line-user.js'
import { Mailbox } from './mailbox.js'
import { WaitingLine } from './waiting-line.js'

/** A key that waits again within this time continues as the same member of its line. */
const IDLE_MS = 10_000
/**
 * Above this number of lines, those without waiters are soon forgotten: a client chooses how many keys there are. Each
 * new line then looks at a few others, however many there are.
 */
const MOST_LINES = 1000

/** Leases of the keys for which requests wait: they account for what the line is answered. */
export interface LeasesBesideLine {
  /** An answer to the line of these charges was read. */
  lineAnswered(charges: readonly Charge[]): void
  /** A request that waited was granted: the verdicts with the units that this process holds besides. */
  granted(charges: readonly Charge[], verdicts: readonly Verdict[], grantedAt: number): readonly Verdict[]
}

/**
 * The line in which requests wait for these charges together; undefined if the charges are in several slots of a
 * cluster.
 */
export function redisLineOf(
  { scripts, keys }: RedisCounts,
  charges: readonly Charge[],
  leases?: LeasesBesideLine,
): RedisLine | undefined {
  const tag = keys.tagOf(charges[0].key)
  if (charges.some(charge => keys.tagOf(charge.key) !== tag)) return undefined
  return new ScriptedLine(scripts, charges, tag, () => leases?.lineAnswered(charges))
}

/** The waiting lines of one limiter in Redis. */
export class RedisLines implements StoreLines {
  readonly #store: RedisCounts
  readonly #guard: LineGuard
  readonly #leases: LeasesBesideLine | undefined
  readonly #lines = new Map<string, LimitLine>()
  #position = this.#lines.entries()
  #sweep: ReturnType<typeof setTimeout> | undefined
  #forgetReady: (() => void) | undefined
  /** Held here, because the store does not keep its observers alive. */
  readonly #recovery: Observer = { breakerClosed: () => this.#resend() }

  constructor(store: RedisCounts, guard: LineGuard, leases?: LeasesBesideLine) {
    this.#store = store
    this.#leases = leases
    this.#guard = guard
    guard.watch(this.#recovery)
  }

  wait(charges: readonly Charge[], cost: number, patience: Patience, outage?: Outage): Promise<Turn> | undefined {
    const server = redisLineOf(this.#store, charges, this.#leases)
    if (server === undefined) return undefined
    if (outage === undefined && !this.#guard.mayAsk(charges[0])) throw this.#guard.refusal(charges[0])
    // One line in Redis may hold requests under different quotas; each `LimitLine` here has only one.
    const details = charges.map(({ limit }) => `${limit.quota} ${limit.windowMs} ${limit.burst}`).join(' ')
    const name = `${details}|${server.name}`
    let line = this.#lines.get(name)
    if (line === undefined) {
      line = new LimitLine(server, charges, details, this.#store, this.#guard, this.#leases)
      if (this.#lines.size >= MOST_LINES) for (let i = 0; i < STEPS_PER_INSERTION; i++) this.#lookAtNext()
      this.#lines.set(name, line)
      this.#forgetReady ??= server.onReady(() => this.#resend())
      this.#sweepLater()
    }
    return line.wait(cost, patience, outage)
  }

  async close(error: Error): Promise<void> {
    await Promise.all([...this.#lines.values()].map(line => line.close(error)))
    this.#lines.clear()
    this.#end()
  }

  /** The store answers again: those who waited elsewhere meanwhile ask at once, before others come. */
  #resend(): void {
    for (const line of this.#lines.values()) line.resend()
  }

  #lookAtNext(): void {
    const { done, value } = this.#position.next()
    if (done) this.#position = this.#lines.entries()
    else this.#forgetIfIdle(...value)
  }

  #forgetIfIdle(name: string, line: LimitLine): void {
    if (!line.isIdle) return
    line.end()
    this.#lines.delete(name)
  }

  #sweepLater(): void {
    if (this.#sweep !== undefined) return
    this.#sweep = setTimeout(() => {
      this.#sweep = undefined
      for (const [name, line] of this.#lines) this.#forgetIfIdle(name, line)
      if (this.#lines.size > 0) this.#sweepLater()
      else this.#end()
    }, IDLE_MS)
    this.#sweep.unref?.()
  }

  #end(): void {
    this.#forgetReady?.()
    this.#forgetReady = undefined
  }
}

/** This process in the line of one key, under one set of quotas. */
class LimitLine implements LineUser<Turn> {
  readonly width: number
  readonly isLate = isLateOnce
  readonly mailbox: Mailbox
  readonly #line: WaitingLine<Turn>

  constructor(
    readonly server: RedisLine,
    readonly charges: readonly Charge[],
    /** Quota, window and burst of each limit. */
    readonly details: string,
    store: RedisCounts,
    readonly guard: LineGuard,
    readonly leases: LeasesBesideLine | undefined,
  ) {
    this.width = 2 * charges.length
    const { connection, prefix } = store.parts
    this.mailbox = new Mailbox(connection.client, prefix, {
      hear: () => this.#line.hear(),
      live: () => this.#line.hear(),
    })
    this.#line = new WaitingLine(this)
  }

  get deadlineMs(): number {
    return this.guard.deadlineMs
  }

  connectsUntil(): number {
    return this.guard.connectsUntil()
  }

  get isIdle(): boolean {
    return this.#line.isIdle
  }

  wait(cost: number, patience: Patience, outage: Outage | undefined): Promise<Turn> {
    return this.#line.wait(cost, this.details, patience, outage)
  }

  end(): void {
    this.#line.end()
  }

  /** The server may answer again. */
  resend(): void {
    this.#line.resend()
  }

  close(error: Error): Promise<void> {
    return this.#line.close(error)
  }

  /** While the breaker is open, only the ask that is its probe is sent. */
  ready(): boolean {
    return this.server.isReady && this.guard.mayAsk(this.charges[0])
  }

  isFault(error: unknown): boolean {
    return isFault((error as Error).cause ?? error)
  }

  failing(): unknown {
    return this.server.failing ?? this.guard.refusal(this.charges[0])
  }

  async send(ask: LineAsk, endsAt: number): Promise<unknown> {
    const askedAt = performance.now()
    const reply = await this.server.ask(ask, endsAt)
    this.guard.lineAnswered(this.charges[0], askedAt)
    return reply
  }

  grant(_: Wanted, { facts, at }: GrantFacts): Turn {
    const numbers = facts.map(Number)
    const verdicts = this.charges.map((charge, i) => turnVerdict(charge, numbers[2 * i], numbers[2 * i + 1]))
    return { verdicts: this.leases?.granted(this.charges, verdicts, at) ?? verdicts, at }
  }

  refusal({ cost }: Wanted, waitMs: number): Error {
    return waitMs < 0 ? neverFits(cost, this.charges[0].limit) : tooFar(waitMs)
  }

  timedOut(_: Wanted, timeoutMs: number): Error {
    return tooLate(timeoutMs)
  }

  ended(): Error {
    return this.failed(new Error('the line was ended'))
  }

  failed(cause: unknown): Error {
    return this.guard.lineFailed(this.charges[0], cause ?? new Error(`it did not answer within ${this.deadlineMs} ms`))
  }
}

/** The line in Redis in which requests wait for some limits under one name and key. */
export interface RedisLine {
  /** Its first key, which no other line has. */
  readonly name: string
  /** False while the client cannot be asked. */
  readonly isReady: boolean
  /** Why the client cannot be asked; undefined if it can. */
  readonly failing: StoreError | undefined
  /** Calls back whenever the client becomes ready; the returned function unsubscribes. */
  onReady(listener: () => void): () => void
  /**
   * `endsAt`: by `performance.now()`, the last moment at which the ask may be carried out. Rejects with `StoreError`.
   */
  ask(ask: LineAsk, endsAt: number): Promise<unknown>
}

class ScriptedLine implements RedisLine {
  readonly #line: readonly string[]
  readonly #waitingUnits: string
  /** For each limit its state, then its block list, then its note. */
  readonly #states: readonly string[]
  readonly #limits: readonly Limit[]

  readonly #scripts: StoreScripts
  readonly #tag: number

  /** `answered` is called when an answer to an ask is read, before its promise is settled. */
  constructor(
    scripts: StoreScripts,
    charges: readonly Charge[],
    tag: number,
    readonly answered: () => void,
  ) {
    const { keys } = scripts
    this.#scripts = scripts
    this.#tag = tag
    this.#line = keys.lineOf(charges, tag)
    this.#waitingUnits = keys.waitingUnitsOf(charges, tag)
    this.#states = [
      ...charges.map(charge => keys.keyOf(charge, tag)),
      ...charges.map(charge => keys.blockListOf(charge, tag)),
      ...charges.map(charge => keys.noteOf(charge, tag)),
    ]
    this.#limits = charges.map(({ limit }) => limit)
  }

  get name(): string {
    return this.#line[0]
  }

  get isReady(): boolean {
    return this.failing === undefined
  }

  get failing(): StoreError | undefined {
    return notConnected(this.#scripts.port.state())
  }

  onReady(listener: () => void): () => void {
    return this.#scripts.port.onReady(listener)
  }

  ask({ member, replaces, words, copies }: LineAsk, endsAt: number): Promise<unknown> {
    const records = [this.#record(member), this.#record(replaces === '' ? member : replaces)]
    const channel = waitersChannel(this.#scripts.keys.prefix)
    return this.#scripts.run({
      script: acquire,
      tag: this.#tag,
      keys: [...this.#line, ...records, this.#waitingUnits, ...this.#states],
      args: nowMs => [channel, ...limitArguments(this.#limits, () => nowMs), ...words],
      endsAt,
      copies,
      answered: this.answered,
    })
  }

  #record(member: string): string {
    return `${this.name}:sent:${member}`
  }
}
