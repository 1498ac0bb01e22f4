import { afterAll, beforeAll, expect, test } from '@jest/globals'
import type { Cluster } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import { RateLimiter, type RateLimiterOptions } from '../../src/limiter/rate-limiter.js'
import { eventually } from '../support/eventually.js'
import { RedisCluster } from '../support/redis-cluster.js'

let cluster: RedisCluster
let client: Cluster
beforeAll(async () => {
  cluster = await RedisCluster.start()
  client = cluster.client()
}, 30_000)
afterAll(() => cluster?.stop())

let limiters = 0
function limiterOver(options: Partial<RateLimiterOptions> = {}): RateLimiter {
  const store = new RedisStore(client, { prefix: `cluster ${limiters++}` })
  return new RateLimiter({ policy: '2/1h name=a; 2/1h name=b', store, deadline: '5s', ...options })
}

test('while one node of three hangs, its keys are decided at once without it, the others by Redis', async () => {
  const limiter = limiterOver({ policy: '1000/1h', deadline: 200, onStoreFailure: 'open' })
  const owners = new Map<string, string>()
  for (let i = 0; i < 60; i++) {
    const key = `k${i}`
    await limiter.consume(key)
    owners.set(key, '')
  }
  const [hung] = cluster.nodes
  const onHung = await hung.client().keys('cluster *:k*:default*')
  const keysOfHung = new Set(onHung.map(name => /:(k\d+):default/.exec(name)?.[1]))
  const [bad, good] = [
    [...owners.keys()].filter(key => keysOfHung.has(key)),
    [...owners.keys()].filter(key => !keysOfHung.has(key)),
  ]
  expect(Math.min(bad.length, good.length)).toBeGreaterThan(5)
  hung.pause()
  try {
    // The breaker opens after 20 decisions that took their whole deadline.
    await Promise.all(Array.from({ length: 20 }, (_, i) => limiter.consume(bad[i % bad.length])))
    const times: number[] = []
    for (let i = 0; i < 100; i++) {
      const askedAt = performance.now()
      expect((await limiter.consume(bad[i % bad.length])).source).toBe('open')
      times.push(performance.now() - askedAt)
      expect((await limiter.consume(good[i % good.length])).source).toBe('redis')
    }
    // All but some probes.
    expect(times.filter(ms => ms > 150).length).toBeLessThan(10)
  } finally {
    hung.unpause()
  }
}, 20_000)

test('units that a refused decision spent on one node come back at its deadline, while the other node still hangs', async () => {
  const limiter = limiterOver({ policy: '1000/1h name=ip; 1000/1h name=user', deadline: 200, onStoreFailure: 'closed' })
  const ips = new RateLimiter({
    policy: '1000/1h name=ip',
    store: new RedisStore(client, { prefix: `cluster ${limiters - 1}` }),
    deadline: '5s',
    denyCache: false,
  })
  // Two keys on two nodes.
  const nodeOf = async (key: string) => {
    await limiter.consume({ ip: key, user: key })
    const found = await Promise.all(cluster.nodes.map(node => node.client().keys(`*:${key}:default:ip@*`)))
    return found.findIndex(keys => keys.length > 0)
  }
  const ip = 'ip0'
  const ipNode = await nodeOf(ip)
  let user = ''
  for (let i = 0; user === ''; i++) if ((await nodeOf(`u${i}`)) !== ipNode) user = `u${i}`
  const userNode = cluster.nodes[await nodeOf(user)]
  const left = async () => (await ips.peek(ip, 0)).remaining
  const before = await left()
  userNode.pause()
  try {
    const decisions = await Promise.all(Array.from({ length: 15 }, () => limiter.consume({ ip, user })))
    expect(decisions.map(({ source }) => source)).toEqual(Array(15).fill('closed'))
    await eventually('the units are back', async () => (await left()) === before, 1000)
  } finally {
    userNode.unpause()
  }
  await eventually('nothing stays spent', async () => (await limiter.peek({ ip, user }, 0)).source === 'redis')
  expect(await left()).toBe(before)
}, 20_000)
