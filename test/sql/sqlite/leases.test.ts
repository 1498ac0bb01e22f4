import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from '@jest/globals'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { SqliteStore } from '../../../src/sql/sqlite-store.js'
import { ManualClock } from '../../../src/testing.js'
import { START } from '../../support/stories.js'

const folder = mkdtempSync(join(tmpdir(), 'spillway-sqlite-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test.each(['sliding-window', 'fixed-window', 'sliding-counter'])(
  'under %s two stores over one file decide a busy key from leases, together never over the limit',
  async algorithm => {
    const clock = new ManualClock(START)
    const limiters = [1, 2].map(() => {
      const store = new SqliteStore(join(folder, `${algorithm}.db`), { clock, leases: true })
      return new RateLimiter({ policy: `500/1s ${algorithm}`, store, deadline: '10s', observer: {} })
    })
    let [passed, leased] = [0, 0]
    for (let ms = 0; ms < 100; ms++) {
      for (const limiter of limiters) {
        for (let i = 0; i < 10; i++) {
          const { allowed, source } = await limiter.consume('k')
          if (!allowed) continue
          passed++
          if (source === 'lease') leased++
        }
      }
      clock.advance(1)
    }
    expect(passed).toBeLessThanOrEqual(500)
    expect(passed).toBeGreaterThan(400)
    expect(leased).toBeGreaterThan(200)
    for (const limiter of limiters) await limiter.close()
  },
)
