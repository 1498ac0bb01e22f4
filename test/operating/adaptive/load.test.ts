import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import type { LoadLevel } from '../../../src/http/load.js'
import { RedisStore } from '../../../src/index.js'
import { parsePolicy } from '../../../src/limiter/core/limit.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { customLoad, loadPolicy, processLoad } from '../../../src/operating/adaptive/index.js'
import { containerCpus } from '../../../src/operating/adaptive/process-load.js'
import { ManualClock } from '../../../src/testing.js'
import { eventually } from '../../support/eventually.js'
import { RedisServer } from '../../support/redis-server.js'
import { warnings } from '../../support/warnings.js'

const warned = warnings()

/** A load that a test sets. */
function loadOf(level: number): LoadLevel & { level: number } {
  return { level, reason: 'custom' }
}

describe('containerCpus', () => {
  let root: string
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'spillway-cgroup-'))
  })
  afterEach(() => rmSync(root, { recursive: true, force: true }))
  const write = (file: string, text: string) => {
    mkdirSync(dirname(join(root, file)), { recursive: true })
    writeFileSync(join(root, file), text)
  }

  test.each<[string, Record<string, string>, number]>([
    ['no cgroup: all processors of the machine', {}, 8],
    ['version 2, without a quota', { 'proc/self/cgroup': '0::/\n', 'sys/fs/cgroup/cpu.max': 'max 100000\n' }, 8],
    ['version 2, half a processor', { 'proc/self/cgroup': '0::/\n', 'sys/fs/cgroup/cpu.max': '50000 100000\n' }, 0.5],
    [
      'version 2, a quota in a group above',
      {
        'proc/self/cgroup': '0::/app/worker\n',
        'sys/fs/cgroup/app/cpu.max': '150000 100000\n',
        'sys/fs/cgroup/app/worker/cpu.max': 'max 100000\n',
      },
      1.5,
    ],
    [
      'version 2, more than the machine has',
      { 'proc/self/cgroup': '0::/\n', 'sys/fs/cgroup/cpu.max': '9000000 100000\n' },
      8,
    ],
    [
      'version 1',
      {
        'proc/self/cgroup': '5:memory:/docker/ab\n4:cpu,cpuacct:/docker/ab\n0::/docker/ab\n',
        'sys/fs/cgroup/cpu/docker/ab/cpu.cfs_quota_us': '200000\n',
        'sys/fs/cgroup/cpu/docker/ab/cpu.cfs_period_us': '100000\n',
      },
      2,
    ],
    [
      'version 1, mounted as the root of the container, without a quota',
      {
        'proc/self/cgroup': '4:cpu,cpuacct:/docker/ab\n',
        'sys/fs/cgroup/cpu/cpu.cfs_quota_us': '-1\n',
        'sys/fs/cgroup/cpu/cpu.cfs_period_us': '100000\n',
      },
      8,
    ],
    ['nonsense', { 'proc/self/cgroup': 'x\n\n0::/\n', 'sys/fs/cgroup/cpu.max': 'many\n' }, 8],
  ])('%s', (_, files, cpus) => {
    for (const [file, text] of Object.entries(files)) write(file, text)
    expect(containerCpus(root, 8)).toBe(cpus)
  })
})

describe('processLoad', () => {
  test('an idle process has a low level, a blocked event loop a high one', async () => {
    const load = processLoad({ every: 100 })
    try {
      // Real time is what the level is measured by: here and below, the process idles or is busy for so long.
      await sleep(350)
      // A busy machine delays an idle process, too, but not for ever.
      await eventually('the process is idle', () => expect([load.level < 0.7, load.reason]).toEqual([true, 'none']))
      for (let i = 0; i < 4 && load.level <= 1; i++) {
        const until = performance.now() + 250
        while (performance.now() < until) {}
        await sleep(5)
      }
      expect(load.level).toBeGreaterThan(1)
      expect(load.reason).toBe('event-loop')
    } finally {
      load.close()
    }
  })

  test('delays that come one after another count in full, not only as a busy loop', async () => {
    const load = processLoad({ every: 100, eventLoopDelayP99: 10 })
    const levels: number[] = []
    try {
      for (let i = 0; i < 10; i++) {
        const until = performance.now() + 150
        while (performance.now() < until) {}
        await sleep(1)
        levels.push(load.level)
      }
      // 100 ms late each time, which is ten times too much; a loop that is always busy is 1.05 times too busy.
      expect(Math.min(...levels.slice(-4))).toBeGreaterThan(8.5)
    } finally {
      load.close()
    }
  })

  test('the heap against its limit counts as memory', async () => {
    const load = processLoad({ every: 100, heap: 1e-6, eventLoopDelayP99: '1h', utilization: 1 })
    await eventually('the memory counts', () => expect(load.reason).toBe('memory'))
    load.close()
    const { level } = load
    // Once closed it measures no more.
    await sleep(150)
    expect(load.level).toBe(level)
  })
})

describe('with time in hand', () => {
  beforeEach(() => {
    jest.useFakeTimers()
  })
  afterEach(() => void jest.useRealTimers())

  test('customLoad reads at once and then every 500 ms, smoothly, a rise sooner than a fall', async () => {
    let value = 1
    const load = customLoad(async () => value)
    await jest.advanceTimersByTimeAsync(0)
    expect(load.level).toBeCloseTo(0.6)
    expect(load.reason).toBe('none')
    await jest.advanceTimersByTimeAsync(5000)
    expect(load.level).toBeGreaterThan(0.99)
    expect(load.reason).toBe('custom')
    value = 0
    await jest.advanceTimersByTimeAsync(500)
    expect(load.level).toBeCloseTo(0.7)
    load.close()
    await jest.advanceTimersByTimeAsync(5000)
    expect(load.level).toBeCloseTo(0.7)
    expect(jest.getTimerCount()).toBe(0)
  })

  test('customLoad keeps its level while reading fails, and warns once', async () => {
    const given = [0.5, Number.NaN, 'x', 0.5]
    const load = customLoad(() => {
      if (given.length === 0) throw new Error('gone')
      return given.shift() as number
    })
    await jest.advanceTimersByTimeAsync(10_000)
    load.close()
    expect(load.level).toBeGreaterThan(0.3)
    expect(warned.texts).toEqual(['customLoad: read returned NaN, expected a number ≥ 0, like 0.5', 'customLoad: gone'])
  })

  test('customLoad warns of a read that does not answer within 5 s, and reads again', async () => {
    let hangs = true
    const load = customLoad(() => (hangs ? new Promise<number>(() => {}) : 0.9))
    await jest.advanceTimersByTimeAsync(5000)
    expect(warned.texts).toEqual(['customLoad: read has not answered within 5s, expected a number sooner'])
    hangs = false
    await jest.advanceTimersByTimeAsync(15_000)
    expect(load.level).toBeGreaterThan(0.7)
    expect(warned.texts).toHaveLength(1)
    load.close()
  })

  test('loadPolicy: the factor falls to half at least each second while overloaded, and rises by 0.1 a second', async () => {
    const load = loadOf(0)
    const changes: [number, string][] = []
    const policy = loadPolicy('100/1m', {
      load,
      min: 0.2,
      onChange: (factor, reason) => changes.push([factor, reason]),
    })
    expect(policy.factor).toBe(1)
    load.level = 1.5
    await jest.advanceTimersByTimeAsync(1000)
    expect(policy.factor).toBeLessThanOrEqual(0.5)
    await jest.advanceTimersByTimeAsync(2000)
    expect(policy.factor).toBe(0.2)
    load.level = 0.8
    await jest.advanceTimersByTimeAsync(10_000)
    expect(policy.factor).toBe(0.2)
    load.level = 0.5
    await jest.advanceTimersByTimeAsync(1250)
    const { factor } = policy
    await jest.advanceTimersByTimeAsync(3000)
    expect(policy.factor - factor).toBeCloseTo(0.3)
    await jest.advanceTimersByTimeAsync(10_000)
    expect(policy.factor).toBe(1)
    expect(changes[0]).toEqual([0.5, 'custom'])
    expect(changes.map(([factor]) => factor)).toEqual([0.5, 0.25, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1])
  })

  test('loadPolicy multiplies quota and burst, at least 1, and keeps names, windows and algorithms', async () => {
    const load = loadOf(2)
    const of = (policy: Parameters<typeof loadPolicy>[0], ...context: unknown[]) => {
      const following = loadPolicy(policy, { load })
      return async () => {
        await jest.advanceTimersByTimeAsync(2000)
        expect(following.factor).toBe(0.1)
        return parsePolicy(following(...context), 'leaky-bucket')
      }
    }
    const limit = {
      name: '100-per-1m',
      namedAfter: 100,
      quota: 10,
      windowMs: 60_000,
      burst: 10,
      algorithm: 'leaky-bucket',
    }
    expect(await of('100/1m')()).toEqual([limit])
    expect(await of('100/1m token-bucket burst=30; 5/1s sliding-window')()).toEqual([
      { ...limit, burst: 3, algorithm: 'token-bucket' },
      { name: '5-per-1s', namedAfter: 5, quota: 1, windowMs: 1000, burst: 1, algorithm: 'sliding-window' },
    ])
    expect((await of({ quota: 0, window: '1s', name: 'none' })())[0].quota).toBe(0)
    const [ofDays] = parsePolicy('50/day tz=Europe/Berlin name=days')
    expect(await of('500/day tz=Europe/Berlin name=days')()).toEqual([ofDays])
    expect((await of((plan: string) => (plan === 'pro' ? '1000/1m' : '10/1m'), 'pro')())[0].quota).toBe(100)
  })
})

describe.each(['memory', 'redis'] as const)('a limiter over %s whose policy follows a load', kind => {
  let redis: RedisServer | undefined
  beforeEach(async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask', 'setTimeout', 'clearTimeout'] })
    redis = kind === 'redis' ? await RedisServer.start() : undefined
  })
  afterEach(async () => {
    jest.useRealTimers()
    await redis?.stop()
  })

  test('counts go on when the limit changes, and a remembered denial ends when it rises', async () => {
    const clock = new ManualClock(1_700_000_000_000)
    const store = redis ? new RedisStore(redis.client(), { clock }) : new MemoryStore({ clock })
    const load = loadOf(0)
    const policy = loadPolicy('20/1m', { load, min: 0.5 })
    const limiter = new RateLimiter({ policy, store, deadline: '5s' })
    for (let i = 0; i < 10; i++) expect((await limiter.consume('k')).allowed).toBe(true)
    load.level = 2
    jest.advanceTimersByTime(500)
    expect(policy.factor).toBe(0.5)
    const denied = await limiter.consume('k')
    expect(denied).toMatchObject({ allowed: false, remaining: 0, retryAfterMs: 60_000 })
    expect(denied.limit).toMatchObject({ name: '20-per-1m', quota: 10 })
    // It counts as the limit that was written.
    const plain = new RateLimiter({ policy: '20/1m', store, deadline: '5s' })
    expect((await plain.peek('k', 0)).remaining).toBe(10)
    load.level = 0
    jest.advanceTimersByTime(5500)
    expect(policy.factor).toBe(1)
    expect(await limiter.consume('k')).toMatchObject({ allowed: true, remaining: 9 })
    await limiter.close()
    await store.close?.()
  })
})
