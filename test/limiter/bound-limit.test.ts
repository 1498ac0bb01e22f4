import { describe, expect, test } from '@jest/globals'
import { MemoryStore } from '../../src/limiter/memory/memory-store.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import type { Charge } from '../../src/limiter/store.js'
import { ManualClock } from '../../src/testing.js'

describe('one limit over a store in memory', () => {
  test('calls a consume() that has replaced the store’s', async () => {
    class Counting extends MemoryStore {
      asked = 0
      override consume(charges: readonly Charge[], cost: number) {
        this.asked++
        return super.consume(charges, cost)
      }
    }
    const store = new Counting()
    const limiter = new RateLimiter({ policy: '2/1m', store })
    await limiter.consume('a')
    expect(store.asked).toBe(1)

    const plain = new MemoryStore()
    plain.consume = () => {
      throw new Error('down')
    }
    const later = new RateLimiter({ policy: '2/1m', store: plain })
    expect(await later.consume('a')).toMatchObject({ source: 'fallback', degraded: true })
  })

  test('uses the failure policy when the store fails, and then the store again', async () => {
    const clock = new ManualClock(1_000)
    const store = new MemoryStore({ clock: { now: () => (broken ? fail() : clock.now()) } })
    let broken = true
    const fail = () => {
      throw new Error('no time')
    }
    const limiter = new RateLimiter({ policy: '2/1m', store, onStoreFailure: 'open' })
    expect(await limiter.consume('a')).toMatchObject({ source: 'open', degraded: true })
    broken = false
    expect(await limiter.consume('a')).toMatchObject({ source: 'memory', degraded: false, remaining: 1 })
  })

  test('decides as together with another limit, and settles its units', async () => {
    const clock = new ManualClock(1_000)
    const alone = new RateLimiter({ policy: '5/1m', store: new MemoryStore({ clock }) })
    const beside = new RateLimiter({ policy: '5/1m; 1000/1h', store: new MemoryStore({ clock }) })
    for (const cost of [1, 0, 3, 2, 9, 1, 1]) {
      const [one] = (await alone.consume('a', cost)).verdicts
      const [other] = (await beside.consume('a', cost)).verdicts
      expect(one).toMatchObject({ remaining: other.remaining, resetAfterMs: other.resetAfterMs })
      clock.advance(7_000)
    }
    await alone.reset('a')
    const decision = await alone.consume('a', 4)
    await alone.settle(decision, 1)
    await alone.settle(decision, 0)
    expect((await alone.peek('a', 0)).remaining).toBe(4)
  })
})

describe('a store in memory of many limits', () => {
  test('takes little memory for a limit with few keys', () => {
    const store = new MemoryStore()
    const limiters = 2_000
    const limit = new RateLimiter({ policy: '2/1m fixed-window', store }).policy[0]
    const before = process.memoryUsage().arrayBuffers
    for (let i = 0; i < limiters; i++) store.consume([{ key: 'a', limit, limiter: `tenant ${i}` }], 1)
    expect((process.memoryUsage().arrayBuffers - before) / limiters).toBeLessThan(1_024)
    // And keeps each of more keys than the first rows hold.
    for (let round = 0; round < 2; round++) {
      for (let i = 0; i < 3_000; i++) {
        const [{ remaining }] = store.consume([{ key: `client ${i}`, limit }], 1)
        expect(remaining).toBe(1 - round)
      }
    }
    store.close()
  })
})
