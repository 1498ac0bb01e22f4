import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { type Alert, type AlertRule, type Alerts, alerts } from '../../../src/operating/observing/alerts/index.js'
import { ManualClock } from '../../../src/testing.js'
import { warnings } from '../../support/warnings.js'

const warned = warnings()

let clock: ManualClock
let told: Alert[]
let opened: Alerts[]
beforeEach(() => {
  clock = new ManualClock(1_700_000_000_000)
  told = []
  opened = []
})
afterEach(() => {
  for (const one of opened) one.close()
})

function watch(...rules: AlertRule[]): Alerts {
  const observer = alerts({ rules, clock, notify: alert => told.push(alert) })
  opened.push(observer)
  return observer
}

/** A limiter of so many requests a minute that an alert watches. */
const limiterOf = (observer: Alerts, quota = 100, name = 'api') =>
  new RateLimiter({ policy: `${quota}/1m`, name, observer, store: new MemoryStore({ clock }) })

const lines = () =>
  told.map(({ rule, state, subject, value }) => `${state} ${rule.name} ${subject} ${value.toFixed(2)}`)

describe('a limiter that starts to refuse a tenth of its requests', () => {
  test('fires once, and is resolved once when it is well below, with the share, the moment and the limiter', async () => {
    const rule: AlertRule = { name: 'refusals', when: 'denied-share', above: 0.1 }
    const observer = watch(rule)
    const limiter = limiterOf(observer, 40)
    for (let i = 0; i < 50; i++) await limiter.consume('k')
    expect(told).toEqual([])
    clock.advance(1000)
    await limiter.consume('k')
    expect(told).toEqual([{ rule, state: 'firing', value: 11 / 51, at: new Date(1_700_000_001_000), subject: 'api' }])
    expect(observer.firing).toEqual(told)
    for (let i = 0; i < 30; i++) {
      clock.advance(1000)
      for (const key of ['a', 'b', 'c', 'd', 'e']) await limiter.consume(`${key}-${i}`)
    }
    expect(lines()).toEqual(['firing refusals api 0.22', 'resolved refusals api 0.08'])
    expect(observer.firing).toEqual([])
  })

  test('between 0.8 × above and above the state does not change', async () => {
    const observer = watch({ name: 'r', when: 'denied-share', above: 0.5, over: '10s', atLeast: 20 })
    const decide = (denied: number, allowed: number) => {
      for (let i = 0; i < denied + allowed; i++) observer.decided?.({ allowed: i >= denied } as never, 'api')
    }
    // The share of each turn is judged once it is complete, by the first decision of the next second.
    const turn = (denied: number) => {
      clock.advance(500)
      decide(denied, 20 - denied)
      clock.advance(1000)
      decide(0, 1)
      clock.advance(20_000)
      const { length } = observer.firing
      return length
    }
    expect([10, 11, 10, 9, 8, 9, 10].map(turn)).toEqual([0, 1, 1, 1, 0, 0, 0])
    expect(told.map(({ state }) => state)).toEqual(['firing', 'resolved'])
  })

  test('too few decisions do not fire, and the share without decisions is 0', async () => {
    jest.useFakeTimers({ doNotFake: ['performance'] })
    const observer = watch({ name: 'r', when: 'denied-share', above: 0.1 })
    const limiter = limiterOf(observer, 1)
    for (let i = 0; i < 19; i++) await limiter.consume('k')
    jest.advanceTimersByTime(1000)
    expect(told).toEqual([])
    await limiter.consume('k')
    jest.advanceTimersByTime(1000)
    expect(lines()).toEqual(['firing r api 0.95'])
    clock.advance(61_000)
    jest.advanceTimersByTime(1000)
    expect(lines().at(-1)).toBe('resolved r api 0.00')
    jest.useRealTimers()
  })

  test('with `for` it must hold for this time without a break', async () => {
    const observer = watch({ name: 'r', when: 'denied-share', above: 0.5, over: '2s', for: '5s', atLeast: 1 })
    const second = (allowed: boolean) => {
      clock.advance(1000)
      for (let i = 0; i < 10; i++) observer.decided?.({ allowed } as never, 'api')
      clock.advance(0)
    }
    for (let i = 0; i < 4; i++) second(false)
    for (let i = 0; i < 3; i++) second(true)
    expect(told).toEqual([])
    for (let i = 0; i < 8; i++) second(false)
    expect(lines()).toEqual(['firing r api 1.00'])
  })

  test('each limiter is judged separately, or only the named one', async () => {
    const observer = watch(
      { name: 'each', when: 'denied-share', above: 0.5 },
      { name: 'one', when: 'denied-share', above: 0.5, limiter: 'b' },
    )
    for (const [name, quota] of [
      ['a', 1],
      ['b', 1],
      ['c', 100],
    ] as const) {
      const limiter = limiterOf(observer, quota, name)
      for (let i = 0; i < 30; i++) await limiter.consume('k')
    }
    clock.advance(1000)
    await limiterOf(observer, 100, 'c').consume('k')
    expect(lines()).toEqual(['firing each a 0.97', 'firing each b 0.97', 'firing one b 0.97'])
    expect(observer.firing.map(({ rule, subject }) => `${rule.name} ${subject}`)).toEqual(['each a', 'each b', 'one b'])
  })

  test('shadow mode refuses nothing', async () => {
    const observer = watch({ name: 'r', when: 'denied-share', above: 0 })
    const limiter = new RateLimiter({ policy: '1/1m', shadow: true, observer })
    for (let i = 0; i < 30; i++) await limiter.consume('k')
    clock.advance(1000)
    await limiter.consume('k')
    expect(told).toEqual([])
  })
})

describe('other rules', () => {
  test('a breaker that opens, and closes', () => {
    const observer = watch({ name: 'redis', when: 'breaker-open', above: 0 })
    clock.advance(1000)
    observer.breakerOpened?.(new Error('down'))
    observer.breakerOpened?.(new Error('down'))
    clock.advance(1000)
    observer.breakerClosed?.()
    clock.advance(1000)
    observer.breakerClosed?.()
    expect(lines()).toEqual(['firing redis store 1.00', 'resolved redis store 0.00'])
  })

  test('the share of decisions made without the store, and of those near the limit', () => {
    const observer = watch(
      { name: 'degraded', when: 'degraded-share', above: 0.2 },
      { name: 'near', when: 'near-limit-share', above: 0.2 },
    )
    const decision = (degraded: boolean, remaining: number) =>
      ({ allowed: true, degraded, remaining, limit: { quota: 100 } }) as never
    for (let i = 0; i < 100; i++) observer.decided?.(decision(i < 30, i < 40 ? 20 : 21), 'api')
    clock.advance(1000)
    observer.decided?.(decision(false, 21), 'api')
    expect(lines()).toEqual(['firing degraded api 0.30', 'firing near api 0.40'])
  })

  test('a key with most of the traffic is found among any number of keys, and dropped when it becomes quiet', () => {
    const observer = watch({ name: 'hog', when: 'one-key-share', above: 0.5 })
    const ask = (key: string) => observer.decided?.({ allowed: true, key } as never, 'api')
    for (let i = 0; i < 20_000; i++) ask(`k${i}`)
    clock.advance(1000)
    ask('k')
    expect(told).toEqual([])
    for (let i = 0; i < 60_000; i++) {
      ask(i % 10 < 7 ? 'hog' : `other-${i}`)
      if (i % 5000 === 0) clock.advance(1000)
    }
    expect(told).toHaveLength(1)
    clock.advance(1000)
    ask('hog')
    // 42 000 of 80 000 in the last minute.
    expect(told[0]).toMatchObject({ state: 'firing', subject: 'api' })
    expect(told[0].value).toBeGreaterThan(0.5)
    // The keys of a minute are counted in parts of 10 s, which expire as a whole.
    clock.advance(71_000)
    for (let i = 0; i < 30; i++) ask(`k${i}`)
    clock.advance(1000)
    ask('k')
    expect(told.map(({ state }) => state)).toEqual(['firing', 'resolved'])
  })

  test('late messages and dead letters, by queue', () => {
    const observer = watch(
      { name: 'late', when: 'queue-lateness', above: 5000, over: '10s' },
      { name: 'dead', when: 'dead-letters', above: 0, limiter: 'mails' },
    )
    const deliver = (queue: string, latenessMs: number) => observer.delivered?.({ queue, latenessMs, attempt: 1 })
    const settle = (queue: string, outcome: 'ack' | 'dead') =>
      observer.settledDelivery?.({ queue, outcome, durationMs: 1 })
    deliver('mails', 6000)
    deliver('mails', 10)
    settle('mails', 'ack')
    settle('orders', 'dead')
    settle('mails', 'dead')
    settle('mails', 'dead')
    clock.advance(1000)
    settle('mails', 'ack')
    expect(lines()).toEqual(['firing late mails 6000.00', 'firing dead mails 2.00'])
    clock.advance(10_000)
    deliver('mails', 3000)
    clock.advance(50_000)
    deliver('mails', 10)
    expect(lines().slice(2)).toEqual(['resolved late mails 3000.00', 'resolved dead mails 0.00'])
  })

  test('messages that are overdue because nothing is delivered', () => {
    const observer = watch({ name: 'late', when: 'queue-lateness', above: 1000, over: '10s' })
    const level = (overdueMs: number) => observer.level?.({ object: 'queue', name: 'mails', depth: 3, overdueMs })
    level(500)
    clock.advance(1000)
    level(1500)
    clock.advance(1000)
    level(2500)
    expect(lines()).toEqual(['firing late mails 1500.00'])
    observer.level?.({ object: 'semaphore', name: 'mails', inUse: 9000 })
    clock.advance(1000)
    level(0)
    clock.advance(11_000)
    level(0)
    expect(lines().slice(1)).toEqual(['resolved late mails 0.00'])
  })
})

describe('alerts', () => {
  test('are judged every second of real time, without any event, and not after close', () => {
    jest.useFakeTimers()
    const observer = alerts({
      rules: [{ name: 'r', when: 'breaker-open', above: 0 }],
      notify: alert => told.push(alert),
    })
    observer.breakerOpened?.(new Error('down'))
    expect(told).toEqual([])
    jest.advanceTimersByTime(1000)
    expect(lines()).toEqual(['firing r store 1.00'])
    observer.close()
    observer.breakerClosed?.()
    jest.advanceTimersByTime(10_000)
    expect(told).toHaveLength(1)
    jest.useRealTimers()
  })

  test.each(['1s', '1500ms', '2s', '10s'])(
    'over %s fire while requests are refused, are not resolved before that ends, and then are',
    over => {
      jest.useFakeTimers({ now: 0 })
      let late = 0
      // Intervals of Node drift: between two ticks pass 1050 ms, so that now and then a whole second has no tick.
      jest.spyOn(performance, 'now').mockImplementation(() => Date.now() + late)
      const rule: AlertRule = { name: 'r', when: 'denied-share', above: 0.5, over, atLeast: 10 }
      const observer = alerts({ rules: [rule], notify: alert => told.push(alert) })
      opened.push(observer)
      for (let i = 0; i < 3000; i++) {
        observer.decided?.({ allowed: false } as never, 'api')
        late += 0.5
        jest.advanceTimersByTime(10)
      }
      expect(lines()).toEqual(['firing r api 1.00'])
      jest.advanceTimersByTime(13_000)
      expect(lines()).toEqual(['firing r api 1.00', 'resolved r api 0.00'])
      jest.useRealTimers()
      jest.restoreAllMocks()
    },
  )

  test('by a given clock they fire over 1s, too, and an event counts until it is older than `over`', () => {
    const observer = watch({ name: 'dead', when: 'dead-letters', above: 1, over: '1s' })
    const settle = (outcome: 'ack' | 'dead') => observer.settledDelivery?.({ queue: 'mails', outcome, durationMs: 1 })
    settle('dead')
    clock.advance(990)
    settle('dead')
    clock.advance(10)
    settle('ack')
    expect(lines()).toEqual(['firing dead mails 2.00'])
    clock.advance(1000)
    settle('ack')
    expect(lines()).toEqual(['firing dead mails 2.00', 'resolved dead mails 0.00'])
  })

  test('consumers that cannot work are counted by queue, for a minute after they told so last', () => {
    const observer = watch(
      { name: 'two', when: 'consumer-failed', above: 1 },
      { name: 'mails', when: 'consumer-failed', above: 0, limiter: 'mails' },
    )
    const fails = (queue: string) => observer.consumerFailed?.({ queue, error: new Error('no rate') })
    fails('jobs')
    fails('jobs')
    clock.advance(1000)
    fails('jobs')
    expect(lines()).toEqual([])
    fails('mails')
    clock.advance(59_000)
    fails('jobs')
    expect(lines()).toEqual(['firing two queues 2.00', 'firing mails mails 1.00'])
    clock.advance(10_000)
    fails('jobs')
    // One of two is not yet 0.8 of the bound.
    expect(lines().slice(2)).toEqual(['resolved mails mails 0.00'])
  })

  test('handle only the events that their rules need', () => {
    expect(Object.keys(watch({ name: 'r', when: 'breaker-open', above: 0 })).sort()).toEqual([
      'breakerClosed',
      'breakerOpened',
      'close',
      'firing',
    ])
  })

  test('a notify that throws or rejects costs a process warning', async () => {
    for (const notify of [
      () => {
        throw new Error('sync')
      },
      async () => {
        throw new Error('async')
      },
    ]) {
      const observer = alerts({ rules: [{ name: 'r', when: 'breaker-open', above: 0 }], notify, clock })
      opened.push(observer)
      clock.advance(1000)
      observer.breakerOpened?.(new Error('down'))
    }
    await Promise.resolve()
    expect(warned.texts).toEqual(['alerts: notify threw: sync', 'alerts: notify threw: async'])
  })

  test('memory does not grow with traffic or keys, nor beyond a thousand limiters', () => {
    const observer = watch(
      { name: 'r', when: 'denied-share', above: 0.1, atLeast: 1 },
      { name: 'k', when: 'one-key-share', above: 0.9 },
    )
    for (let i = 0; i < 1200; i++) observer.decided?.({ allowed: false, key: 'k' } as never, `made-of-a-request-${i}`)
    clock.advance(1000)
    observer.decided?.({ allowed: true, key: 'k' } as never, 'made-of-a-request-0')
    const subjects = told.filter(({ rule }) => rule.name === 'r').map(({ subject }) => subject)
    expect(subjects).toHaveLength(1001)
    expect(subjects).toContain('other')
  })
})
