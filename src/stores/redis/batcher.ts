import { setImmediate } from 'node:timers'
import type { Verdict } from '../../core/decision.js'
import { StoreError, shown } from '../../core/errors.js'
import type { ClientPort } from '../../redis/client.js'
import { runScript } from '../../redis/run-script.js'
import { ServerClock } from '../../redis/server-clock.js'
import type { Asker, Charge } from '../store.js'
import { Batch } from './batch.js'
import type { BatchKind } from './batch-kind.js'
import { BatchKinds } from './batch-kinds.js'
import type { ChargeKeys } from './charge-keys.js'
import { VerdictReader } from './wire.js'

/** A command older than this is not carried out: a client may keep it while the server is away and send it again after. */
const STALE_AFTER_MS = 1000
/** Most decisions that wait for a first connection. */
const MOST_HELD = 10_000

/**
 * Gathers the decisions of one turn of the event loop that stand under the same limits, and asks for them in one script call.
 * Asks only a client that is ready; for a first connection it waits a little, and rejects what waited too long.
 */
export class Batcher {
  readonly #serverClock = new ServerClock()
  readonly #kinds: BatchKinds
  #open: Batch[] = []
  /** The newest of each kind. Never cleared, but overwritten: a Map that is cleared keeps what it held from the garbage collector. */
  readonly #filling = new WeakMap<BatchKind, Batch>()
  #held = 0
  #scheduled = false

  constructor(
    readonly port: ClientPort,
    keys: ChargeKeys,
    readonly maxBatch: number,
    /** '1' to spend, '0' only to look. */
    readonly spending: '0' | '1',
    /** Text of the given clock's time; '' for the server's. */
    readonly now: () => string,
  ) {
    this.#kinds = new BatchKinds(keys)
    port.onReady(() => this.flush())
  }

  ask(charges: readonly Charge[], cost: number, tag: number, asker: Asker): void {
    const state = this.port.state()
    if (state === 'down') {
      this.port.wake()
      asker.reject(new StoreError('the Redis client is not connected'))
    } else if (state === 'starting' && this.#held >= MOST_HELD) {
      asker.reject(new StoreError('the Redis client has not connected yet, and too many decisions wait for it'))
    } else {
      if (state === 'starting') this.#held++
      this.#batchFor(charges, tag).add(charges, cost, asker)
    }
  }

  verdicts(charges: readonly Charge[], cost: number, tag: number): Promise<readonly Verdict[]> {
    return new Promise((resolve, reject) => this.ask(charges, cost, tag, { resolve, reject }))
  }

  #batchFor(charges: readonly Charge[], tag: number): Batch {
    const kind = this.#kinds.of(charges, tag)
    const filling = this.#filling.get(kind)
    if (filling?.takesMore(this.maxBatch)) return filling
    if (!this.#scheduled) {
      this.#scheduled = true
      setImmediate(() => this.flush())
    }
    const batch = new Batch(kind)
    this.#filling.set(kind, batch)
    this.#open.push(batch)
    return batch
  }

  /** Asks now for what has been gathered. */
  flush(): void {
    this.#scheduled = false
    const state = this.port.state()
    if (state === 'starting') {
      this.port.wake()
      const held = this.#open
      // Who is told may ask again at once.
      this.#open = []
      const waiting = held.filter(batch => !this.#gaveUp(batch))
      this.#open = [...waiting, ...this.#open]
      return
    }
    const batches = this.#open
    this.#open = []
    this.#held = 0
    for (const batch of batches) {
      batch.close()
      if (state === 'ready') this.#send(batch)
      else batch.reject(new StoreError('the Redis client is not connected'))
    }
  }

  #gaveUp(batch: Batch): boolean {
    if (performance.now() - batch.openedAt < STALE_AFTER_MS) return false
    this.#held -= batch.askers.length
    batch.close()
    batch.reject(new StoreError('the Redis client has not connected yet'))
    return true
  }

  #send(batch: Batch, again = false): void {
    let now: string
    try {
      now = this.now()
    } catch (cause) {
      batch.reject(new StoreError(`the clock failed: ${(cause as Error)?.message ?? shown(cause)}`, { cause }))
      return
    }
    const validUntil = now === '' ? this.#serverClock.in(STALE_AFTER_MS) : undefined
    const args = [now, validUntil === undefined ? '' : String(validUntil), this.spending, ...batch.arguments]
    const sentAt = performance.now()
    runScript(this.port, batch.kind.script, batch.keys, args).then(
      reply => {
        // What stands between us and the server may answer anything.
        const numbers = Array.isArray(reply) ? (reply as readonly unknown[]) : []
        if (numbers.length === 0) {
          batch.reject(new StoreError(`Redis answered ${shown(reply)}, expected a list of numbers`))
          return
        }
        if (numbers.length > 1) {
          if (now === '') this.#serverClock.learn(Number(numbers[0]))
          answer(batch, numbers)
          return
        }
        // Too old, says the server. If it is not, then the server's clock was set forward: learn it anew and ask again.
        this.#serverClock.forget()
        if (!again && performance.now() - sentAt < STALE_AFTER_MS / 2) this.#send(batch, true)
        else batch.reject(new StoreError('Redis got the decision too late to carry it out'))
      },
      cause => {
        batch.reject(new StoreError(`Redis failed to decide: ${(cause as Error).message}`, { cause }))
      },
    )
  }
}

function answer(batch: Batch, reply: readonly unknown[]): void {
  const reader = new VerdictReader(reply, 1, batch.kind.limits)
  const answeredAt = performance.now()
  for (const asker of batch.askers) {
    const verdicts = reader.next()
    if (verdicts instanceof StoreError) asker.reject(verdicts)
    else asker.resolve(verdicts, answeredAt)
  }
}
