import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from '@jest/globals'
import { ALGORITHM_NAMES } from '../../../src/limiter/core/limit.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import type { Store } from '../../../src/limiter/store.js'

/** What two stores over one database promise by its clock, which nobody sets: real time has to pass. */
export function testServerClock(storesOf: () => readonly Store[]): void {
  test('by its own clock, a quota that several stores spend comes back when they say', async () => {
    const stores = storesOf()
    const passing = ALGORITHM_NAMES.map(async algorithm => {
      const policy = { quota: 5, window: 100, algorithm }
      const limiters = stores.map(store => new RateLimiter({ policy, store, deadline: '10s', denyCache: false }))
      for (const [i, limiter] of limiters.entries()) {
        // Asked in one turn, they are decided at one moment.
        const all = await Promise.all(Array.from({ length: 8 }, () => limiter.consume(algorithm)))
        expect(all.map(({ allowed }) => allowed)).toEqual([true, true, true, true, true, false, false, false])
        const { retryAfterMs, degraded } = all[7]
        expect({ algorithm, degraded, waits: retryAfterMs > 0 && retryAfterMs <= 200 }).toEqual({
          algorithm,
          degraded: false,
          waits: true,
        })
        await sleep(retryAfterMs + 2)
        const other = limiters[(i + 1) % limiters.length]
        const again = await other.consume(algorithm)
        expect(again.allowed).toBe(true)
        await sleep(again.resetAfterMs + 2)
        expect(await other.peek(algorithm, 5)).toMatchObject({ allowed: true, remaining: 0 })
      }
    })
    await Promise.all(passing)
  })
}
