import { afterAll, beforeAll, describe, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { ALGORITHM_NAMES, parseLimit } from '../../src/core/limit.js'
import { MemoryStore } from '../../src/stores/memory/memory-store.js'
import { RedisStore } from '../../src/stores/redis/redis-store.js'
import { ManualClock } from '../../src/testing.js'
import { expectAgreement, KINDS } from '../support/agreement.js'
import { forCases, ofCases } from '../support/cases.js'
import { RedisServer } from '../support/redis-server.js'
import { randomChange, randomHistory, randomLimit } from '../support/scenario.js'
import { START } from '../support/stories.js'
import { expectSameVerdicts } from '../support/verdicts.js'

/** test/faults/agreement.test.ts plays a million. */
const OPERATIONS = ofCases(200_000)

let redis: RedisServer
beforeAll(async () => {
  redis = await RedisServer.start()
})
afterAll(() => redis.stop())

describe('memory and Redis agree on every field of every verdict', () => {
  test.each(KINDS)(
    '%s (%p)',
    (_, algorithms, part) => expectAgreement(redis.bulkClient(), algorithms, OPERATIONS * part),
    60_000,
  )
})

describe('memory and Redis agree on limits of any shape, however far the clock runs back', () => {
  const idle: { clock: ManualClock; shared: RedisStore }[] = []
  const bench = () => {
    const clock = new ManualClock(START)
    return idle.pop() ?? { clock, shared: new RedisStore(client, { clock, prefix: 'any' }) }
  }
  let client: Redis
  beforeAll(async () => {
    client = redis.bulkClient()
    // From here on the server knows the script, and carries calls out in the order in which they come.
    await bench().shared.consume([{ key: 'first', limit: parseLimit({ quota: 1, window: 1 }) }], 1)
  })

  test.each(ALGORITHM_NAMES)(
    '%s',
    algorithm =>
      forCases(800, algorithm, async (random, key) => {
        const { clock, shared } = bench()
        clock.set(START)
        const memory = new MemoryStore({ clock })
        let limit = randomLimit(algorithm, random)
        for (const { afterMs, cost } of randomHistory(limit, random, 14)) {
          clock.advance(afterMs)
          const charges = [{ key, limit }]
          const other = Math.min(cost, 1000)
          switch (random.integer(0, 9)) {
            case 0:
              memory.refund(charges, other)
              await shared.refund(charges, other)
              break
            case 1:
              memory.charge(charges, other)
              await shared.charge(charges, other)
              break
            case 2:
              limit = randomChange(limit, random)
          }
          const [foreseen, verdicts, now] = await Promise.all([
            shared.peek(charges, cost),
            shared.consume(charges, cost),
            shared.consume(charges, 0),
          ])
          expectSameVerdicts(foreseen, memory.peek(charges, cost))
          expectSameVerdicts(verdicts, memory.consume(charges, cost))
          expectSameVerdicts(now, memory.consume(charges, 0))
        }
        memory.close()
        idle.push({ clock, shared })
      }),
    60_000,
  )
})
