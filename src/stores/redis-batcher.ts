import { setImmediate } from 'node:timers'
import type { Verdict } from '../decision.js'
import { StoreError, shown } from '../errors.js'
import type { ClientPort } from '../redis/client.js'
import { runScript } from '../redis/run-script.js'
import { ServerClock } from '../redis/server-clock.js'
import type { Charge } from '../store.js'
import { Batch } from './redis-batch.js'
import type { ChargeKeys } from './redis-charge-keys.js'
import { VerdictReader } from './redis-wire.js'

/** A command older than this is not carried out: a client may keep it while the server is away and send it again after. */
const STALE_AFTER_MS = 1000
/**
 * What is gathered while the server is idle is sent in about four parts, none smaller than this: while the server decides one, the
 * client reads the answers to another.
 */
const SMALL_BATCH = 32
const PARTS = 4
/** Most decisions that wait for a first connection. */
const MOST_HELD = 10_000

/**
 * Gathers the decisions of one turn of the event loop that stand under the same limits, and asks for them in one script call.
 * Asks only a client that is ready; for a first connection it waits a little, and rejects what waited too long.
 */
export class Batcher {
  readonly #serverClock = new ServerClock()
  #open: Batch[] = []
  #held = 0
  /** Script calls that are not answered yet. */
  #inFlight = 0
  #scheduled = false

  constructor(
    readonly port: ClientPort,
    readonly keys: ChargeKeys,
    readonly maxBatch: number,
    /** '1' to spend, '0' only to look. */
    readonly spending: '0' | '1',
    /** Text of the given clock's time; '' for the server's. */
    readonly now: () => string,
  ) {
    port.onReady(() => this.flush())
  }

  ask(charges: readonly Charge[], cost: number, tag: number): Promise<readonly Verdict[]> {
    const state = this.port.state()
    if (state === 'down') {
      this.port.wake()
      return Promise.reject(new StoreError('the Redis client is not connected'))
    }
    if (state === 'starting' && ++this.#held > MOST_HELD) {
      return Promise.reject(
        new StoreError('the Redis client has not connected yet, and too many decisions wait for it'),
      )
    }
    return new Promise((resolve, reject) => {
      this.#batchFor(charges, tag).add(charges, cost, this.keys, { resolve, reject })
    })
  }

  #batchFor(charges: readonly Charge[], tag: number): Batch {
    for (const batch of this.#open) {
      if (batch.askers.length < this.maxBatch && batch.takes(charges, tag)) return batch
    }
    if (!this.#scheduled) {
      this.#scheduled = true
      setImmediate(() => this.flush())
    }
    const batch = Batch.for(charges, tag, this.keys)
    this.#open.push(batch)
    return batch
  }

  /** Asks now for what has been gathered. */
  flush(): void {
    this.#scheduled = false
    const state = this.port.state()
    if (state === 'starting') {
      this.port.wake()
      this.#open = this.#open.filter(batch => !this.#gaveUp(batch))
      return
    }
    const batches = this.#open
    this.#open = []
    this.#held = 0
    const gathered = batches.reduce((sum, { askers }) => sum + askers.length, 0)
    // While the server has something to do already, nothing is gained.
    const wanted = this.#inFlight > 0 ? this.maxBatch : Math.max(SMALL_BATCH, Math.ceil(gathered / PARTS))
    const most = Math.min(this.maxBatch, wanted)
    for (const batch of batches) {
      if (state === 'ready') for (const part of batch.parts(most)) this.#send(part)
      else batch.reject(new StoreError('the Redis client is not connected'))
    }
  }

  #gaveUp(batch: Batch): boolean {
    if (performance.now() - batch.openedAt < STALE_AFTER_MS) return false
    this.#held -= batch.askers.length
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
    this.#inFlight++
    runScript(this.port, batch.script, batch.keys, args).then(
      reply => {
        this.#inFlight--
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
        this.#inFlight--
        batch.reject(new StoreError(`Redis failed to decide: ${(cause as Error).message}`, { cause }))
      },
    )
  }
}

function answer(batch: Batch, reply: readonly unknown[]): void {
  const reader = new VerdictReader(reply, 1, batch.limits)
  for (const asker of batch.askers) {
    const verdicts = reader.next()
    if (verdicts instanceof StoreError) asker.reject(verdicts)
    else asker.resolve(verdicts)
  }
}
