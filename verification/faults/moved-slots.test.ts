import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import { parseLimit, parsePolicy } from '../../src/limiter/core/limit.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import type { Charge } from '../../src/limiter/store.js'
import { RedisCluster } from '../../test/support/redis-cluster.js'
import { RedisServer } from '../../test/support/redis-server.js'
import { stateKeys } from '../../test/support/state-keys.js'
import { SteppedClock } from '../../test/support/stepped-clock.js'

/** 1000 a second: one unit for each ms by which clocks differ. */
const QUOTA = 60_000
const LEFT = 20
const BATCH = 8
const RUN_MS = 600
/** A key is asked for by one test a kind, so that it is asked for faster than it regains units. */
const KINDS = {
  buckets: ['token-bucket', 'leaky-bucket'].map(
    algorithm => `${QUOTA}/1m ${algorithm} burst=${QUOTA} name=${algorithm}`,
  ),
  windows: ['fixed-window', 'sliding-window', 'sliding-counter'].map(
    algorithm => `${QUOTA}/30d ${algorithm} name=${algorithm}`,
  ),
}

/** Asks one at a time and eight in one turn, by turns, as ordinary traffic does. Returns how many were allowed. */
async function alternate(decide: () => Promise<boolean>, untilMs: number): Promise<number> {
  let allowed = 0
  while (performance.now() < untilMs) {
    if (await decide()) allowed++
    const batch = await Promise.all(Array.from({ length: BATCH }, decide))
    allowed += batch.filter(Boolean).length
  }
  return allowed
}

describe('keys that are moved by MIGRATE to a server with another clock', () => {
  let clock: SteppedClock
  let first: RedisServer
  let second: RedisServer
  beforeAll(async () => {
    clock = await SteppedClock.make()
    ;[first, second] = await Promise.all([RedisServer.start({ env: clock.env }), RedisServer.start()])
  })
  afterAll(async () => {
    await Promise.all([first.stop(), second.stop()])
    await clock.remove()
  })

  const cases = [-2000, -60, -20, -5, 0, 5, 20, 60, 2000].flatMap(aheadMs => [
    [aheadMs, 'buckets'] as const,
    [aheadMs, 'windows'] as const,
  ])
  test.each(cases)(
    'the old clock %i ms ahead: no more is admitted than the policy and that difference, once, allow (%s)',
    async (aheadMs, kind) => {
      await clock.set(aheadMs)
      const [from, to] = [first.client(), second.client()]
      await Promise.all([from.flushall(), to.flushall()])
      const ofMonth = parseLimit({ quota: QUOTA, calendar: 'month', timezone: 'UTC', name: 'calendar' })
      const limits = [...parsePolicy(KINDS[kind].join('; ')), ...(kind === 'windows' ? [ofMonth] : [])]
      const startedAt = performance.now()
      const spent = limits.map(() => QUOTA - LEFT)
      const both = limits.map((limit): Charge => ({ key: 'together', limit }))
      const decideOn = (client: Redis) => {
        const store = new RedisStore(client)
        return {
          store,
          each: (i: number) => async () => (await store.consume([{ key: 'k', limit: limits[i] }], 1))[0].allowed,
          together: async () => (await store.consume(both, 1)).every(({ allowed }) => allowed),
        }
      }
      const old = decideOn(from)
      for (const limit of limits) {
        const charges = [{ key: 'k', limit }]
        await old.store.consume(charges, QUOTA - LEFT)
        // A row is as it is in service: written by more than one decision.
        await old.store.consume(charges, 0)
      }
      await old.store.consume(both, QUOTA - LEFT)
      const load = async (on: ReturnType<typeof decideOn>, ms: number) => {
        const untilMs = performance.now() + ms
        const counts = limits.map(async (_, i) => {
          spent[i] += await alternate(on.each(i), untilMs)
        })
        const [together] = await Promise.all([alternate(on.together, untilMs), ...counts])
        return together
      }
      let together = QUOTA - LEFT + (await load(old, 50))
      const keys = await stateKeys(from)
      await from.call('MIGRATE', second.host, second.port, '', 0, 5000, 'REPLACE', 'KEYS', ...keys)
      together += await load(decideOn(to), RUN_MS)
      const regainedMs = Math.ceil(performance.now() - startedAt) + Math.max(0, -aheadMs) + 1
      const most = limits.map(({ algorithm }) => QUOTA + (algorithm.endsWith('bucket') ? regainedMs : 0))
      expect(limits.map(({ name }, i) => [name, spent[i] <= most[i] || spent[i] - most[i]])).toEqual(
        limits.map(({ name }) => [name, true]),
      )
      expect(together).toBeLessThanOrEqual(Math.min(...most))
      const lifetimes = await Promise.all((await stateKeys(to)).map(key => to.pttl(key)))
      expect(lifetimes.filter(ms => ms < 0)).toEqual([])
      await Promise.all([from.quit(), to.quit()])
    },
    30_000,
  )
})

test.each(['token-bucket', 'leaky-bucket'])(
  'a cluster whose first node is 30 ms ahead: slots that are moved away under load regain no more than those, once (%s)',
  async algorithm => {
    const aheadMs = 30
    const clock = await SteppedClock.make()
    await clock.set(aheadMs)
    const cluster = await RedisCluster.start({ env: node => (node === 0 ? clock.env : {}) })
    try {
      const [from, to] = cluster.nodes
      const client = cluster.client()
      const limiter = new RateLimiter({
        policy: `${QUOTA}/1m ${algorithm} burst=${QUOTA}`,
        store: new RedisStore(client),
        denyCache: false,
        onStoreFailure: 'closed',
        deadline: '5s',
      })
      let key = ''
      let slot = 0
      for (let i = 0; (await cluster.ownerOf(slot)) !== from || key === ''; i++) {
        key = `k${i}`
        await limiter.consume(key)
        const states = (await Promise.all(cluster.nodes.map(node => stateKeys(node.client())))).flat()
        slot = await cluster.slotOf(states.find(state => state.includes(`${key}:`)) as string)
      }
      const startedAt = performance.now()
      let admitted = (await limiter.consume(key, QUOTA - LEFT)).allowed ? QUOTA - LEFT : 0
      expect(admitted).toBe(QUOTA - LEFT)
      const decide = async () => {
        const { allowed, source } = await limiter.consume(key)
        return allowed && source === 'redis'
      }
      const load = alternate(decide, performance.now() + 3000)
      await sleep(200)
      await cluster.moveSlot(slot, to)
      expect(await cluster.ownerOf(slot)).toBe(to)
      admitted += await load
      // One unit was spent to find the key.
      expect(admitted).toBeLessThanOrEqual(QUOTA + Math.ceil(performance.now() - startedAt) + aheadMs)
      expect(admitted).toBeGreaterThan(QUOTA)
    } finally {
      await cluster.stop()
      await clock.remove()
    }
  },
  60_000,
)
