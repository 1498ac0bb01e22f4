import { afterIo, LONGEST_TIMER_MS } from '../../limiter/core/clock.js'
import type { Verdict } from '../../limiter/core/decision.js'
import { StoreError, shown } from '../../limiter/core/errors.js'
import type { Keys, Reply } from '../../limiter/port.js'
import { type Charge, DEFAULT_DEADLINE_MS } from '../../limiter/store.js'
import type { ClientPort } from '../client.js'
import { Batch, type BatchKind, type BatchKinds } from './batch.js'
import type { StoreScripts } from './store-scripts.js'
import { listOf, VerdictReader } from './wire-format.js'

/** From this number of decisions on, two calls are better than one. */
const WORTH_TWO = 32

/**
 * Decides when batchers send: at the end of the turn of the event loop, when all sockets are read; or, while no call is
 * in flight and waiting gains nothing, as soon as the running callback ends. Over HTTP always at the end of the turn.
 * Batches are sent in the order in which they were requested.
 */
export class SendScheduler {
  /** Calls without an answer so far. */
  #inFlight = 0
  /** Decisions that the running callback has answered. */
  #answered = 0
  #due: (() => void)[] = []
  readonly #end = () => {
    const due = this.#due
    this.#due = []
    for (const flush of due) flush()
  }

  readonly #forget = () => {
    this.#answered = 0
  }

  constructor(readonly port: ClientPort) {}

  /** Calls `flush` at the end of this turn of the event loop. */
  schedule(flush: () => void): void {
    if (this.#due.push(flush) > 1) return
    if (this.port.beforeSending !== undefined) this.port.beforeSending(this.#end)
    else if (this.#inFlight === 0) process.nextTick(this.#end)
    else afterIo(this.#end)
  }

  sent(): void {
    this.#inFlight++
  }

  answered(decisions: number): void {
    this.#inFlight--
    if (decisions === 1 || this.port.beforeSending !== undefined) return
    // By now, callers that ask again directly after their answer have done so.
    if (this.#answered === 0) process.nextTick(this.#forget)
    this.#answered += decisions
  }

  /**
   * How many decisions the first call of this turn may hold: half of the decisions just answered, if the same callers
   * ask again. With one call for all, the server would be idle while this process reads and asks, and this process
   * while the server decides.
   */
  get firstShare(): number {
    return this.#inFlight === 0 && this.#answered >= WORTH_TWO ? this.#answered >> 1 : Number.POSITIVE_INFINITY
  }
}

interface DecidedVerdicts {
  readonly verdicts: readonly Verdict[]
  /** By the server's clock, ms. */
  readonly decidedAt: number
}

/** Most decisions that wait for a first connection. */
const MOST_HELD = 10_000

/**
 * Collects decisions under the same limits, and sends them in one script call at the end of the turn of the event loop.
 * While the client connects for the first time, decisions wait until their deadline; a client that lost its connection
 * is not asked.
 */
export class Batcher {
  readonly port: ClientPort
  #open: Batch[] = []
  /**
   * The newest batch of each kind. Overwritten instead of cleared: a cleared Map keeps its former contents from the
   * garbage collector.
   */
  readonly #filling = new WeakMap<BatchKind, Batch>()
  /** Decisions that are collected. */
  #held = 0
  #scheduled = false
  #patience: ReturnType<typeof setTimeout> | undefined
  readonly #flushes = () => this.flush()

  constructor(
    readonly scripts: StoreScripts,
    readonly kinds: BatchKinds,
    readonly maxBatch: number,
    readonly scheduler: SendScheduler,
    /** False for `peek`. */
    readonly spending: boolean,
    /** Called with each moment at which a batch of this tag was decided, and when that was asked for. */
    readonly decided: (tag: number, nowMs: number, askedAt: number) => void,
  ) {
    const { port } = scripts
    this.port = port
    port.onReady(this.#flushes)
    // Decisions that wait for a first connection that was refused are rejected at once.
    port.onLost(this.#flushes)
  }

  decide(kind: BatchKind, keys: Keys, cost: number, reply: Reply): void {
    if (this.#held >= MOST_HELD && this.port.state() === 'starting') {
      reply.reject(new StoreError('the Redis client has not connected yet, and too many decisions wait for it'))
      return
    }
    this.#held++
    const endsAt = reply.endsAt ?? performance.now() + DEFAULT_DEADLINE_MS
    this.#batchFor(kind, endsAt).add(keys, cost, endsAt, reply)
  }

  verdicts(charges: readonly Charge[], cost: number, tag: number, endsAt?: number): Promise<DecidedVerdicts> {
    const keys = charges.map(({ key }) => key)
    return new Promise((resolve, reject) =>
      this.decide(this.kinds.of(charges).at(tag), keys, cost, {
        endsAt,
        resolve: (verdicts, _, decidedAt) => resolve({ verdicts, decidedAt: decidedAt as number }),
        reject,
      }),
    )
  }

  #batchFor(kind: BatchKind, endsAt: number): Batch {
    const filling = this.#filling.get(kind)
    if (filling?.takesMore(endsAt)) return filling
    if (!this.#scheduled) {
      this.#scheduled = true
      this.scheduler.schedule(this.#flushes)
    }
    const most = this.#open.length === 0 ? Math.min(this.maxBatch, this.scheduler.firstShare) : this.maxBatch
    const batch = new Batch(kind, most)
    this.#filling.set(kind, batch)
    this.#open.push(batch)
    return batch
  }

  /** Whether a collected decision is about one of these keys. */
  holds(keys: readonly string[]): boolean {
    return this.#open.some(batch => batch.holds(keys))
  }

  /** Sends the collected decisions now. */
  flush(): void {
    this.#scheduled = false
    const state = this.port.state()
    if (state === 'starting') {
      this.port.open()
      const held = this.#open
      // A rejected caller may ask again at once.
      this.#open = []
      const waiting = held.filter(batch => !this.#gaveUp(batch))
      this.#open = [...waiting, ...this.#open]
      this.#lookAgain()
      return
    }
    clearTimeout(this.#patience)
    const batches = this.#open
    this.#open = []
    this.#held = 0
    for (const batch of batches) {
      batch.isClosed = true
      this.#send(batch)
    }
  }

  /** Ends the wait for a first connection that neither comes nor fails. */
  #lookAgain(): void {
    clearTimeout(this.#patience)
    if (this.#open.length === 0) return
    const endsAt = Math.min(...this.#open.map(batch => batch.lastEndsAt))
    this.#patience = setTimeout(this.#flushes, Math.min(LONGEST_TIMER_MS, endsAt - performance.now() + 1))
  }

  #gaveUp(batch: Batch): boolean {
    if (performance.now() < batch.lastEndsAt) return false
    this.#held -= batch.replies.length
    batch.isClosed = true
    batch.reject(new StoreError('the Redis client has not connected yet'))
    return true
  }

  #send(batch: Batch): void {
    const { kind, keys } = batch
    let now: string
    try {
      now = this.scripts.now()
    } catch (error) {
      batch.reject(error)
      return
    }
    const server = this.scripts.keys.serverOf(kind.tag)
    const given = now === '' ? '' : `@${now}`
    this.scheduler.sent()
    const askedAt = performance.now()
    this.scripts.timely.send(
      {
        script: kind.script,
        does: 'decide',
        keys,
        args: until => [this.spending ? until : given, ...batch.arguments(() => this.scripts.nowMs(now, server))],
        // A `peek` spends nothing, so a late one is harmless.
        endsAt: this.spending ? batch.firstEndsAt : Number.POSITIVE_INFINITY,
        server,
        byServerClock: now === '',
        mayRepeat: true,
        behindUntil: given,
        listOf: (reply, untilMs) => listOf(reply, untilMs, kind.limits[0]),
      },
      reply => {
        this.scheduler.answered(batch.replies.length)
        const decidedAt = answer(batch, reply)
        if (decidedAt !== undefined) this.decided(kind.tag, decidedAt, askedAt)
      },
      error => {
        this.scheduler.answered(batch.replies.length)
        batch.reject(error)
      },
    )
  }
}

/** Returns when the server decided. A proxy may reply with anything, so the reply is checked. */
function answer(batch: Batch, reply: unknown): number | undefined {
  if (!Array.isArray(reply) || reply.length < 2) {
    batch.reject(new StoreError(`Redis answered ${shown(reply)}, expected a list of numbers`))
    return undefined
  }
  const reader = new VerdictReader(reply, 1, batch.kind.limits)
  const answeredAt = performance.now()
  const decidedAt = Number(reply[0])
  for (const asked of batch.replies) {
    const verdicts = reader.next()
    if (verdicts instanceof StoreError) asked.reject(verdicts)
    else asked.resolve(verdicts, answeredAt, decidedAt)
  }
  return decidedAt
}
