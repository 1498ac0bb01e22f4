import { setImmediate } from 'node:timers'
import type { Verdict } from '../decision.js'
import { StoreError } from '../errors.js'
import type { Limit } from '../limit.js'
import type { ClientPort } from '../redis/client.js'
import { runScript } from '../redis/run-script.js'
import { consume } from '../redis/scripts.js'
import { slotOf } from '../redis/slot.js'
import type { Charge } from '../store.js'
import type { ChargeKeys } from './redis-charge-keys.js'
import { limitArguments, VerdictReader } from './redis-wire.js'

const MOST_DECISIONS = 128

interface Question {
  readonly keys: readonly string[]
  readonly cost: number
  resolve(verdicts: readonly Verdict[]): void
  reject(error: StoreError): void
}

interface Batch {
  /** The cluster slot of all keys; -1 where there is no cluster. */
  readonly slot: number
  readonly limits: readonly Limit[]
  readonly questions: Question[]
}

/** Gathers the decisions of one turn of the event loop that stand under the same limits, and asks for them in one script call. */
export class Batcher {
  #open: Batch[] = []

  constructor(
    readonly port: ClientPort,
    readonly keys: ChargeKeys,
    readonly purpose: 'consume' | 'peek',
    readonly now: () => string,
  ) {}

  ask(charges: readonly Charge[], cost: number): Promise<readonly Verdict[]> {
    return new Promise((resolve, reject) => {
      const keys = charges.map(charge => this.keys.of(charge))
      this.#batchFor(charges, this.port.cluster ? slotOf(keys[0]) : -1).questions.push({ keys, cost, resolve, reject })
    })
  }

  #batchFor(charges: readonly Charge[], slot: number): Batch {
    for (const batch of this.#open) {
      if (batch.slot === slot && batch.questions.length < MOST_DECISIONS && sameLimits(batch.limits, charges))
        return batch
    }
    if (this.#open.length === 0) setImmediate(() => this.#flush())
    const batch = { slot, limits: charges.map(charge => charge.limit), questions: [] }
    this.#open.push(batch)
    return batch
  }

  #flush(): void {
    const batches = this.#open
    this.#open = []
    for (const batch of batches) this.#send(batch)
  }

  #send({ limits, questions }: Batch): void {
    const keys = questions.flatMap(question => question.keys)
    const args = [
      this.now(),
      this.purpose === 'consume' ? '1' : '0',
      ...limitArguments(limits),
      ...costArguments(questions),
    ]
    runScript(this.port, consume, keys, args).then(
      reply => {
        const reader = new VerdictReader(reply as unknown[], limits)
        for (const { resolve, reject } of questions) {
          const verdicts = reader.next()
          if (verdicts instanceof StoreError) reject(verdicts)
          else resolve(verdicts)
        }
      },
      cause => {
        const error = new StoreError(`Redis failed to decide: ${(cause as Error).message}`, { cause })
        for (const { reject } of questions) reject(error)
      },
    )
  }
}

function sameLimits(limits: readonly Limit[], charges: readonly Charge[]): boolean {
  if (limits.length !== charges.length) return false
  for (let i = 0; i < limits.length; i++) if (limits[i] !== charges[i].limit) return false
  return true
}

/** One cost where all are the same. */
function costArguments(questions: readonly Question[]): string[] {
  const first = questions[0].cost
  return questions.every(({ cost }) => cost === first) ? [String(first)] : questions.map(({ cost }) => String(cost))
}
