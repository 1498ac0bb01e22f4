import { expect, test } from '@jest/globals'
import { type Decision, RateLimiter, RedisStore } from '../../src/index.js'
import { ManualClock } from '../../src/testing.js'
import { randomFrom } from '../../test/support/random.js'
import { testRedis } from '../../test/support/test-redis.js'

const QUOTA = 50_000

const redis = testRedis()

// The exact schedules are in test/leases.
test('remaining is exact when a process alone has asked many things at once, and the server knows only some of the scripts', async () => {
  const client = redis.client()
  const play = async (round: number) => {
    const random = randomFrom(`remaining at once ${round}`)
    const store = new RedisStore(client, {
      clock: new ManualClock(1_800_000_000_000),
      prefix: `at once ${round}`,
      leases: { ttl: '1s' },
    })
    let unspent = 0
    const observer = {
      leaseExpired({ units }: { units: number }) {
        unspent += units
      },
    }
    const limiter = new RateLimiter({ policy: `${QUOTA}/20s fixed-window`, store, deadline: '30s', observer })
    const settleable: Decision[] = []
    let spent = 0
    for (let step = 0; step < 30; step++) {
      const asked = Array.from({ length: random.integer(1, 6) }, async () => {
        for (let turns = random.integer(0, 2); turns > 0; turns--) await new Promise(setImmediate)
        const dice = random.integer(0, 9)
        const decision = settleable.pop()
        if (dice < 6) return limiter.consume('k', random.integer(1, 3))
        if (dice < 7) return limiter.acquire('k', { cost: 200 })
        if (dice < 9 && decision !== undefined) {
          await limiter.settle(decision, decision.cost + 200)
          spent += 200
        } else if (dice === 9 && random.integer(0, 3) === 0) await client.script('FLUSH')
        return undefined
      })
      for (const decision of await Promise.all(asked)) {
        if (decision === undefined) continue
        spent += decision.cost
        settleable.push(decision)
      }
      const { remaining } = await limiter.consume('k')
      spent++
      // Few units end unspent with a small lease; those of a charge that is counted twice, or not at all, are more.
      expect([round, step, unspent < 200]).toEqual([round, step, true])
      expect([round, step, remaining >= QUOTA - spent - unspent || remaining]).toEqual([round, step, true])
      expect([round, step, remaining <= QUOTA - spent || remaining]).toEqual([round, step, true])
    }
    limiter.close()
    await store.close()
  }
  // At once, over one connection: each forgets the scripts of all.
  await Promise.all(Array.from({ length: 20 }, (_, round) => play(round)))
}, 60_000)
