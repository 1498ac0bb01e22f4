import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from '@jest/globals'
import { Registry } from 'prom-client'
import { observers } from '../../src/limiter/core/observer.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { alerts } from '../../src/operating/observing/alerts/index.js'
import { prometheusObserver } from '../../src/operating/observing/prometheus.js'
import { RedisStore } from '../../src/redis/store/redis-store.js'
import { Recorder } from '../../test/operating/observing/recorder.js'
import { eventually } from '../../test/support/eventually.js'
import { testRedis } from '../../test/support/test-redis.js'

const redis = testRedis()

test('when Redis stands still for ten seconds, start and end are reported once, counts are exact, and alerts fire and are resolved', async () => {
  const registry = new Registry()
  const recorder = new Recorder()
  const told: string[] = []
  const alarms = alerts({
    rules: [
      { name: 'degraded', when: 'degraded-share', above: 0.2, over: '5s' },
      { name: 'breaker', when: 'breaker-open', above: 0 },
    ],
    notify: ({ rule, state, subject }) => told.push(`${state} ${rule.name} ${subject}`),
  })
  const observer = observers(prometheusObserver({ registry }), recorder.observer, alarms)
  const limiter = new RateLimiter({ policy: '1000/1m', name: 'api', store: new RedisStore(redis.client()), observer })
  const counted = { decisions: 0, degraded: 0 }
  let asking = true
  const caller = async () => {
    for (let i = 0; asking; i++) {
      const { degraded } = await limiter.consume(`k${i % 50}`)
      counted.decisions++
      if (degraded) counted.degraded++
      await sleep(50)
    }
  }
  const traffic = Array.from({ length: 20 }, caller)
  const value = async (name: string, labels: Record<string, string> = {}) => {
    const { values } = (await registry.getSingleMetric(name)!.get()) as {
      values: Array<{ value: number; labels: Record<string, string> }>
    }
    const found = values.filter(one => Object.entries(labels).every(([label, text]) => one.labels[label] === text))
    return found.reduce((sum, one) => sum + one.value, 0)
  }

  await sleep(1000)
  expect(told).toEqual([])
  redis.pause()
  await sleep(10_000)
  expect(await value('ratelimit_breaker_state')).toBe(1)
  redis.unpause()
  await eventually('the breaker is closed', async () => expect(await value('ratelimit_breaker_state')).toBe(0))
  await eventually('four alerts are told', () => expect(told).toHaveLength(4), 20_000)
  asking = false
  await Promise.all(traffic)

  expect(told.slice(0, 2).sort()).toEqual(['firing breaker store', 'firing degraded api'])
  expect(told.slice(2)).toEqual(['resolved breaker store', 'resolved degraded api'])
  expect([recorder.count('breakerOpened'), recorder.count('breakerClosed')]).toEqual([1, 1])
  expect(counted.degraded).toBeGreaterThan(1000)
  expect(await value('ratelimit_decisions_total')).toBe(counted.decisions)
  expect(await value('ratelimit_decisions_total', { source: 'fallback' })).toBe(counted.degraded)
  const answered = recorder.of('storeAnswered')
  expect(answered.reduce((sum, { decisions }) => sum + decisions, 0)).toBe(counted.decisions - counted.degraded)
  expect(await value('ratelimit_store_operations_total', { outcome: 'ok' })).toBe(answered.length)
  expect(await value('ratelimit_store_operations_total', { outcome: 'error' })).toBe(recorder.count('storeFailed'))
  // Before the breaker opened, and of probes afterwards.
  expect(recorder.count('storeFailed')).toBeGreaterThanOrEqual(20)
  expect(recorder.count('storeFailed')).toBeLessThan(counted.degraded)
  alarms.close()
}, 60_000)
