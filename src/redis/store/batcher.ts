import type { Verdict } from '../../limiter/core/decision.js'
import { StoreError, shown } from '../../limiter/core/errors.js'
import type { Keys, Reply } from '../../limiter/port.js'
import { type Charge, DEFAULT_DEADLINE_MS } from '../../limiter/store.js'
import { Batch, type BatchKind, type BatchKinds } from './batch.js'
import type { Outbox } from './outbox.js'
import type { StoreScripts } from './store-scripts.js'
import { listOf, VerdictReader } from './wire-format.js'

interface DecidedVerdicts {
  readonly verdicts: readonly Verdict[]
  /** By the server's clock, ms. */
  readonly decidedAt: number
}

/** Collects decisions under the same limits, and sends them in one script call at the end of the turn: see `Outbox`. */
export class Batcher {
  readonly outbox: Outbox
  /**
   * The newest batch of each kind. Overwritten instead of cleared: a cleared Map keeps its former contents from the
   * garbage collector.
   */
  readonly #filling = new WeakMap<BatchKind, Batch>()
  readonly #sends = (batch: Batch) => this.#send(batch)

  constructor(
    readonly scripts: StoreScripts,
    readonly kinds: BatchKinds,
    readonly maxBatch: number,
    /** False for `peek`. */
    readonly spending: boolean,
    /** Called with each moment at which a batch of this tag was decided, and when that was asked for. */
    readonly decided: (tag: number, nowMs: number, askedAt: number) => void,
  ) {
    this.outbox = scripts.outbox
  }

  decide(kind: BatchKind, keys: Keys, cost: number, reply: Reply): void {
    const { outbox } = this
    const { refusal } = outbox
    if (refusal !== undefined) {
      reply.reject(refusal)
      return
    }
    outbox.collects()
    if (outbox.hasCalled) outbox.comesAfter(kind.keysOf(keys))
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
    const { outbox } = this
    const filling = this.#filling.get(kind)
    if (filling?.part === outbox.part && filling.takesMore(endsAt)) return filling
    const batch = new Batch(kind, Math.min(this.maxBatch, outbox.share), outbox.part, this.#sends)
    this.#filling.set(kind, batch)
    outbox.add(batch)
    return batch
  }

  #send(batch: Batch): void {
    const { outbox } = this
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
    outbox.sent()
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
        outbox.answered(batch.replies.length)
        const decidedAt = answer(batch, reply)
        if (decidedAt !== undefined) this.decided(kind.tag, decidedAt, askedAt)
      },
      error => {
        outbox.answered(batch.replies.length)
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
