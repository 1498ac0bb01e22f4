import { beforeAll, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { realTiming, type Timing } from '../../../src/limiter/core/alarms.js'
import { ManualClock } from '../../../src/testing.js'
import type { LineAsk } from '../../../src/waiting/line/line-user.js'
import { WaitingLine } from '../../../src/waiting/line/waiting-line.js'
import { RateLine } from '../../../src/waiting/rate/line.js'
import { RateKeys } from '../../../src/waiting/rate/options.js'
import { SharedRateLimiter } from '../../../src/waiting/rate/shared-rate-limiter.js'
import { randomFrom } from '../../support/random.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()
let client: Redis
beforeAll(() => {
  client = redis.client()
})

const HOUR_MS = 3_600_000

/** Tells of each answer before the line reads it. */
class WatchedLine extends RateLine {
  answered = () => {}

  override async send(ask: LineAsk, endsAt: number): Promise<unknown> {
    const reply = await super.send(ask, endsAt)
    this.answered()
    return reply
  }
}

/**
 * A process in the line of a rate by the hour. What it is granted by an answer that `isLate` chooses comes late, and
 * the clock of the rate moves on by `serverMs` meanwhile.
 */
async function processAt(name: string, rate: number, isLate: () => boolean, serverMs = 0) {
  const clock = new ManualClock(1_700_000_000_000)
  const limiter = new SharedRateLimiter(client, name, { clock })
  await limiter.setRate({ rate, interval: '1h' })
  let passed = 0
  const timing: Timing = {
    ...realTiming,
    now: () => realTiming.now() + passed,
    alarm(ring, keepsAlive) {
      const alarm = realTiming.alarm(ring, keepsAlive)
      return { set: at => alarm.set(at - passed), clear: () => alarm.clear() }
    },
  }
  const keys = new RateKeys(`spillway:{${name}}:rate`, 'client')
  const user = new WatchedLine(client, { subject: 'test', prefix: 'spillway', keys, now: () => String(clock.now()) })
  const line = new WaitingLine<number>(user, timing)
  const granted: number[] = []
  const gone: number[] = []
  let requests = 0
  user.answered = () => {
    if (!isLate()) return
    passed += HOUR_MS
    clock.advance(serverMs)
  }
  return {
    limiter,
    line,
    granted,
    /** Those that have given up. */
    gone,
    wait(signal?: AbortSignal): void {
      const request = requests++
      line.wait(1, '', { timeoutMs: Number.POSITIVE_INFINITY, signal }).then(
        () => granted.push(request),
        () => gone.push(request),
      )
    },
    /** Until so many are granted. */
    async until(count: () => number): Promise<void> {
      for (const endsAt = performance.now() + 10_000; granted.length < count() && performance.now() < endsAt; ) {
        await new Promise(setImmediate)
      }
    },
  }
}

test.each([
  ['still counts', 0],
  ['has ended', 2 * HOUR_MS],
])(
  'forty grants that came late in one answer, and whose time %s, come back before those behind them',
  async (name, serverMs) => {
    let answers = 0
    const { limiter, line, granted, wait, until } = await processAt(name, 40, () => answers++ === 0, serverMs)
    for (let i = 0; i < 50; i++) wait()
    await until(() => 40)
    expect(granted).toEqual(Array.from({ length: 40 }, (_, i) => i))
    expect([line.size, await limiter.availablePermits()]).toEqual([10, 0])
    await line.close(new Error('the end'))
  },
)

test('however many grants come late and waiters give up, all are granted in order, and no unit is lost', async () => {
  const random = randomFrom('late grants')
  let [late, gaveUp] = [0, 0]
  for (let round = 0; round < 40; round++) {
    const rate = random.integer(1, 150)
    const aborts: AbortController[] = []
    const act = () => {
      for (const abort of aborts) if (random.integer(1, 40) === 1) abort.abort()
      const isLate = random.integer(1, 2) === 1
      if (isLate) late++
      return isLate
    }
    const { limiter, line, granted, gone, wait, until } = await processAt(`round-${round}`, rate, act)
    const join = () => {
      const abort = new AbortController()
      aborts.push(abort)
      wait(abort.signal)
    }
    for (let burst = random.integer(1, 4); burst > 0; burst--) {
      for (let i = random.integer(1, 80); i > 0; i--) join()
      for (let turns = random.integer(0, 3); turns > 0; turns--) await new Promise(setImmediate)
    }
    const due = () => Math.min(rate, aborts.length - gone.length)
    await until(due)
    expect({ round, granted: granted.length }).toEqual({ round, granted: due() })
    gaveUp += gone.length
    await line.close(new Error('the end'))
    expect({ round, granted }).toEqual({ round, granted: [...granted].sort((one, two) => one - two) })
    expect(await limiter.availablePermits()).toBe(rate - granted.length)
  }
  expect([late > 40, gaveUp > 40]).toEqual([true, true])
})
