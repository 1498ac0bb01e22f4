import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { Redis } from 'ioredis'
import { Registry } from 'prom-client'
import { reporter } from '../../../src/operating/dashboard/index.js'
import { prometheusObserver } from '../../../src/operating/observing/prometheus.js'
import { Bottleneck } from '../../../src/replacing/bottleneck/index.js'
import { OpenDashboard } from '../../operating/dashboard/open-dashboard.js'
import { Recorder } from '../../operating/observing/recorder.js'
import { eventually } from '../../support/eventually.js'
import { testRedis } from '../../support/test-redis.js'

/** Jobs that end when they are told. */
function heldJobs() {
  const ends: (() => void)[] = []
  return {
    job: () => new Promise<void>(resolve => ends.push(resolve)),
    end: () => {
      for (const end of ends.splice(0)) end()
    },
  }
}

describe('the observer of a Bottleneck', () => {
  let recorder: Recorder
  beforeEach(() => {
    recorder = new Recorder()
  })

  test('a job waits until it is executed and holds its weight until it has ended, retries included; a dropped one is aborted', async () => {
    const limiter = new Bottleneck({ id: 'partner', maxConcurrent: 2, observer: recorder.observer })
    limiter.on('failed', (_, { retryCount }) => (retryCount === 0 ? 0 : null))
    const { job, end } = heldJobs()
    let attempts = 0
    const first = limiter.schedule({ weight: 2 }, async () => {
      if (++attempts === 1) throw new Error('once more')
      await job()
    })
    const second = limiter.schedule(async () => {})
    await eventually('two attempts', () => attempts === 2)
    const [{ holds, ...subject }] = recorder.of('holding')
    expect(subject).toEqual({ object: 'bottleneck', name: 'partner' })
    expect([...holds]).toEqual([{ permits: 2, since: expect.any(Number) }])
    expect(recorder.of('held')).toEqual([])
    const stopped = limiter.stop()
    await expect(second).rejects.toThrow('This limiter has been stopped')
    end()
    await Promise.all([first, stopped])
    expect(recorder.of('waited').map(({ outcome }) => outcome)).toEqual(['granted', 'aborted'])
    expect(recorder.of('held').map(({ object, name, lost }) => [object, name, lost])).toEqual([
      ['bottleneck', 'partner', false],
    ])
    expect([...holds]).toEqual([])
  })

  test('levels tell what runs, what waits, and what is left of the reservoir', async () => {
    const limiter = new Bottleneck({ id: 'partner', maxConcurrent: 2, reservoir: 9, observer: recorder.observer })
    const { job, end } = heldJobs()
    const results = [1, 2, 3, 4, 5].map(() => limiter.schedule(job))
    const levels = () => recorder.of('level').map(({ inUse, waiting, reservoir }) => [inUse, waiting, reservoir])
    await eventually('two run, three wait', () => String(levels().at(-1)) === '2,3,7')
    expect(recorder.of('level')[0]).toMatchObject({ object: 'bottleneck', name: 'partner' })
    const ending = setInterval(end, 1)
    await Promise.all(results)
    clearInterval(ending)
    await eventually('all are done', () => String(levels().at(-1)) === '0,0,4')
  })

  test('the limiters of a Group are one object by the id of the Group', async () => {
    const group = new Bottleneck.Group({ id: 'clients', reservoir: 5, observer: recorder.observer })
    await Promise.all(['a', 'b', 'c'].map(key => group.key(key).schedule(() => sleep(30))))
    expect(new Set(recorder.of('waited').map(({ name }) => name))).toEqual(new Set(['clients']))
    expect(recorder.of('holding')).toHaveLength(1)
    expect(recorder.of('level').map(({ reservoir }) => reservoir)).not.toContain(5)
  })

  test('something else than an observer is refused', () => {
    expect(() => new Bottleneck({ observer: 'all' as never })).toThrow('Bottleneck: observer "all": expected an object')
  })
})

describe('of a Bottleneck over Redis', () => {
  const server = testRedis()
  let page: OpenDashboard
  beforeAll(async () => {
    page = await OpenDashboard.start({ client: server.client(), authorize: () => 'read' })
  })
  afterAll(() => page.close())

  test('metrics and the dashboard show running and waiting jobs, the reservoir, and which process runs them since when', async () => {
    const registry = new Registry()
    const shown = reporter({ client: server.client(), service: 'shop', version: '1', every: '50ms' })
    const limiters = [shown, prometheusObserver({ registry })].map(observer => {
      const clientOptions = { host: server.host, port: server.port }
      const options = { datastore: 'ioredis', id: 'partner', maxConcurrent: 3, reservoir: 10, clientOptions, Redis }
      return new Bottleneck({ ...options, observer })
    })
    const [first, second] = limiters
    const { job, end } = heldJobs()
    const results = [first.schedule({ weight: 2 }, job), first.schedule({ weight: 3 }, job)]
    await eventually('the first runs', () => first.counts().EXECUTING === 1)
    results.push(second.schedule({ priority: 0 }, job))
    const { shared } = await page.shows('waiting', ({ shared }) =>
      shared.some(({ kind, waiting, inUse }) => kind === 'bottleneck' && waiting === 1 && inUse === 2),
    )
    const row = shared.find(({ kind }) => kind === 'bottleneck')
    expect(row).toMatchObject({ name: 'partner', reservoir: expect.any(Number) })
    expect(row?.holders).toMatchObject([{ permits: 2, by: { service: 'shop', pid: process.pid } }])
    const labels = 'object="bottleneck",name="partner"'
    await eventually('the metrics tell both', async () => {
      const text = await registry.metrics()
      return text.includes(`ratelimit_reservoir{${labels}} `) && text.includes(`ratelimit_waiting{${labels}} 1`)
    })
    const ending = setInterval(end, 1)
    await Promise.all(results)
    clearInterval(ending)
    expect(await registry.metrics()).toContain(`ratelimit_wait_seconds_count{${labels},outcome="granted"} 1`)
    await Promise.all(limiters.map(limiter => limiter.disconnect()))
    await shown.close()
  })
})
