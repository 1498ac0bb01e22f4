import { beforeAll, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../../src/index.js'
import { BlockRule, type Strikes } from '../../../src/limiter/block-rule.js'
import { parseLimit } from '../../../src/limiter/core/limit.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { ManualClock } from '../../../src/testing.js'
import { forCases } from '../../support/cases.js'
import { strikeIn } from '../../support/counts.js'
import type { Random } from '../../support/random.js'
import { START } from '../../support/stories.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()
let client: Redis
beforeAll(() => {
  client = redis.bulkClient()
})

const LIMIT_OPTIONS = { quota: 5, window: 60_000 }
const LIMIT = parseLimit(LIMIT_OPTIONS)

/** What should happen, in plain words: the moments of all counted denials, and of the blocks. */
class Expected {
  #denials: number[] = []
  #windowFrom = 0
  #number = 0
  #endsAt = 0

  constructor(readonly rule: BlockRule) {}

  strike(nowMs: number, count: number, ageMs: number): Strikes {
    if (nowMs < this.#endsAt) return { blockedMs: this.#endsAt - nowMs, isNew: false, left: 0, resetAfterMs: 0 }
    const { after, windowMs, forMs, factor, maxMs, forgetMs } = this.rule
    if (nowMs >= this.#windowFrom + windowMs) this.#denials = []
    const fresh = this.#number > 0 && nowMs - ageMs < this.#endsAt ? 1 : count
    if (this.#denials.length === 0) this.#windowFrom = nowMs
    for (let i = 0; i < fresh; i++) this.#denials.push(nowMs)
    if (this.#denials.length < after) {
      const resetAfterMs = this.#windowFrom + windowMs - nowMs
      return { blockedMs: 0, isNew: false, left: after - this.#denials.length, resetAfterMs }
    }
    this.#denials = []
    this.#number = nowMs <= this.#endsAt + forgetMs ? this.#number + 1 : 1
    const blockedMs = Math.min(maxMs, Math.round(forMs * factor ** (this.#number - 1)))
    this.#endsAt = nowMs + blockedMs
    return { blockedMs, isNew: true, left: 0, resetAfterMs: 0 }
  }
}

function randomRule(random: Random): BlockRule {
  const forMs = random.integer(1, 5000)
  const factor = random.pick([1, 1.5, 2, 3, 10])
  const maxMs = factor === 1 ? forMs : forMs * random.integer(1, 40)
  const forgetMs = factor === 1 ? 0 : random.integer(1, 20_000)
  return new BlockRule(random.integer(1, 12), random.integer(1, 20_000), forMs, factor, maxMs, forgetMs)
}

test('memory and Redis count denials alike, block after the same one, and for as long as the rule says', () =>
  forCases(400, 'strikes', async (random, key) => {
    const clock = new ManualClock(START)
    const memory = new MemoryStore({ clock })
    const shared = new RedisStore(client, { clock, prefix: 'strikes' })
    const rule = randomRule(random)
    const expected = new Expected(rule)
    // Each case has a clock, so it needs a list of blocked keys of its own.
    const charge = { key, limit: parseLimit({ ...LIMIT_OPTIONS, name: key }), limiter: 'login' }
    for (let i = 0; i < 25; i++) {
      // A process reports no denials older than the window.
      const [count, ageMs] = [random.integer(1, 4), random.integer(0, rule.windowMs)]
      const strikes = await strikeIn(shared, charge, { count, ageMs }, rule)
      expect(strikes).toEqual(expected.strike(clock.now(), count, ageMs))
      expect(await strikeIn(memory, charge, { count, ageMs }, rule)).toEqual(strikes)
      const [told] = await shared.peek([charge], 1)
      expect([told.blocked ?? false, told.retryAfterMs]).toEqual([strikes.blockedMs > 0, strikes.blockedMs])
      expect(memory.peek([charge], 1)).toEqual([told])
      clock.advance(random.pick([0, 1, 10, 1000, strikes.blockedMs, strikes.blockedMs + 1, rule.windowMs, 30_000]))
    }
    memory.close()
  }))

test('a block that was ended early is followed by the next one, after as many denials again', async () => {
  const clock = new ManualClock(START)
  const rule = new BlockRule(3, 60_000, 10_000, 2, 80_000, 80_000)
  for (const store of [new MemoryStore({ clock }), new RedisStore(client, { clock, prefix: 'ended early' })]) {
    const charge = { key: 'k', limit: LIMIT }
    const strike = async (count: number) => (await strikeIn(store, charge, { count, ageMs: 0 }, rule)).blockedMs
    expect(await strike(3)).toBe(10_000)
    clock.advance(1000)
    expect(await strike(1)).toBe(9000)
    await store.block([charge], 0)
    expect(await strike(2)).toBe(0)
    expect(await strike(1)).toBe(20_000)
    // A block of the user's own stands, too.
    await store.block([charge], 500_000)
    expect(await strike(3)).toBe(500_000)
    await store.close()
  }
})

test('every key that a strike writes expires', async () => {
  const store = new RedisStore(client, { prefix: 'expires' })
  const charge = { key: 'k', limit: LIMIT }
  const rule = new BlockRule(2, 60_000, 10_000, 2, 80_000, 80_000)
  const lifetimes = async () => {
    const keys = (await client.keys('expires:*')).filter(key => !key.includes('objects'))
    return Promise.all(keys.sort().map(async key => [key, (await client.pttl(key)) > 0]))
  }
  await strikeIn(store, charge, { count: 1, ageMs: 0 }, rule)
  expect(await lifetimes()).toEqual([[expect.stringMatching(/:denials$/), true]])
  await strikeIn(store, charge, { count: 1, ageMs: 0 }, rule)
  expect(await lifetimes()).toEqual([
    [expect.stringMatching(/!blocked/), true],
    [expect.stringMatching(/:blocks$/), true],
  ])
})
