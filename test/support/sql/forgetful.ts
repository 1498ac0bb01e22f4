import type { Limit } from '../../../src/limiter/core/limit.js'
import { parsePolicy } from '../../../src/limiter/core/limit.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import type { PostgresStore } from '../../../src/sql/postgres-store.js'
import type { SqliteStore } from '../../../src/sql/sqlite-store.js'
import { ManualClock } from '../../../src/testing.js'
import { ofCases } from '../cases.js'
import { type Random, randomFrom } from '../random.js'
import { START } from '../stories.js'
import { expectSameVerdicts } from '../verdicts.js'

type SqlStore = PostgresStore | SqliteStore

interface Options {
  readonly prefix: string
  readonly clock: ManualClock
  readonly remember: number
}

const POLICIES = ['10/1h', '10/1h fixed-window', '30/1h; 10/10m token-bucket name=short']
const VERBS = ['consume', 'consume', 'peek', 'refund', 'charge', 'reset', 'block'] as const

/**
 * Random changes of a few keys in one turn, by processes that remember one to four rows and never all of a turn,
 * against a store that forgets nothing.
 */
export async function expectForgetfulAgreement(cases: number, open: (options: Options) => SqlStore): Promise<void> {
  // One after another: a decision has a second, and each case asks many times.
  for (let i = 0; i < ofCases(cases); i++) {
    const id = `forgetful ${i}`
    const random = randomFrom(id)
    const clock = new ManualClock(START)
    const limits = parsePolicy(random.pick(POLICIES))
    const memory = new MemoryStore({ clock })
    const stores = [1, 2, 3].map(() => open({ prefix: id, clock, remember: random.integer(1, 4) }))
    for (let turn = 0; turn < 12; turn++) {
      const store = random.pick(stores)
      const asked = Array.from({ length: random.integer(1, 10) }, () => newOperation(random))
      const answers = await Promise.all(asked.map(operation => carryOut(store, limits, operation)))
      for (const [i, operation] of asked.entries()) {
        const expected = await carryOut(memory, limits, operation)
        if (expected !== undefined) expectSameVerdicts(answers[i]!, expected)
      }
      clock.advance(random.pick([0, 1, 1000, 60_000]))
    }
    for (const store of stores) await store.close()
    await memory.close()
  }
}

type Operation = ReturnType<typeof newOperation>

function newOperation(random: Random) {
  return { verb: random.pick(VERBS), key: `key ${random.integer(0, 7)}`, units: random.integer(1, 4) }
}

async function carryOut(store: SqlStore | MemoryStore, limits: readonly Limit[], { verb, key, units }: Operation) {
  const charges = limits.map(limit => ({ key, limit }))
  if (verb === 'consume' || verb === 'peek') return store[verb](charges, units)
  if (verb === 'refund' || verb === 'charge') await store[verb](charges, units)
  else if (verb === 'reset') await store.reset(charges)
  else await store.block(charges, 20_000 * (units - 1))
  return undefined
}
