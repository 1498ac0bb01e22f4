import { describe, expect, test } from '@jest/globals'
import type { RedisClient } from '../../src/redis/client.js'
import { Subscriber } from '../../src/redis/subscriber.js'
import { eventually } from '../support/eventually.js'
import { Lateness } from '../support/lateness.js'
import { older } from '../support/older.js'
import { RedisCluster } from '../support/redis-cluster.js'
import { RedisServer } from '../support/redis-server.js'
import { testRedis } from '../support/test-redis.js'

const redis = testRedis()

/** Everything heard, and how often the channel became live. */
function ear(client: RedisClient, channel: string) {
  const heard: string[] = []
  const state = { heard, lives: 0 }
  const subscription = Subscriber.of(client)!.subscription(channel, {
    hear: text => heard.push(text),
    live: () => state.lives++,
  })
  return { subscription, ...{ state } }
}

const listeners = async () => {
  const list = (await redis.client().call('CLIENT', 'LIST', 'TYPE', 'pubsub')) as string
  return list.split('\n').filter(Boolean).length
}
const publish = (channel: string, text: string) => redis.client().publish(channel, text)

describe('a subscriber', () => {
  test('opens no connection before a channel is held, and then one for all channels', async () => {
    const client = redis.client()
    const a = ear(client, 'a')
    const b = ear(client, 'b')
    const b2 = ear(client, 'b')
    await client.ping()
    expect(await listeners()).toBe(0)
    for (const { subscription } of [a, b, b2]) subscription.hold()
    await eventually('all live', async () => a.subscription.live && b.subscription.live && b2.subscription.live)
    expect(await listeners()).toBe(1)
    expect([a, b, b2].map(({ state }) => state.lives)).toEqual([1, 1, 1])
    await publish('a', '1')
    await publish('b', '2')
    await eventually('heard', async () => b2.state.heard.length === 1)
    expect([a.state.heard, b.state.heard, b2.state.heard]).toEqual([['1'], ['2'], ['2']])
    for (const { subscription } of [a, b, b2]) subscription.release()
  })

  test('keeps a released channel for a while, so that a new holder need not subscribe again', async () => {
    const client = redis.client()
    const { subscription, state } = ear(client, 'linger')
    subscription.hold()
    await eventually('live', async () => subscription.live)
    subscription.release()
    await publish('linger', 'after')
    await eventually('heard', async () => state.heard.length === 1)
    subscription.hold()
    expect(subscription.live).toBe(true)
    expect(state.lives).toBe(1)
    subscription.release()
    subscription.close()
    await publish('linger', 'closed')
    await client.ping()
    expect(state.heard).toEqual(['after'])
  })

  test('ends its connection at once when everybody has closed, also while it is being opened', async () => {
    const before = await listeners()
    const client = redis.client()
    const [a, b, c] = [ear(client, 'a'), ear(client, 'a'), ear(client, 'c')]
    for (const { subscription } of [a, b, c]) subscription.hold()
    await eventually('live', async () => b.subscription.live && c.subscription.live)
    for (const { subscription } of [a, c]) {
      subscription.release()
      subscription.close()
    }
    // One is left.
    await publish('a', 'still')
    await eventually('heard', async () => b.state.heard.length === 1)
    expect(a.state.heard).toEqual([])
    b.subscription.release()
    b.subscription.close()
    await eventually('its connection is gone', async () => (await listeners()) === before, 5000)
    b.subscription.hold()
    b.subscription.release()
    b.subscription.close()
    const again = ear(client, 'a')
    again.subscription.hold()
    await eventually('live again', async () => again.subscription.live)
    again.subscription.release()
    again.subscription.close()
    await eventually('gone again', async () => (await listeners()) === before, 5000)
  })

  test('is live again within 300 ms after every listening connection was killed, and reports it', async () => {
    const client = redis.client()
    const { subscription, state } = ear(client, 'killed')
    subscription.hold()
    await eventually('live', async () => subscription.live)
    const admin = redis.client()
    const late = await Lateness.of(redis)
    const before = performance.now()
    await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
    await eventually('live again', async () => state.lives === 2)
    const tookMs = performance.now() - before
    expect(tookMs).toBeLessThan(300 + (await late.stop()))
    await publish('killed', 'again')
    await eventually('heard', async () => state.heard.length === 1)
    subscription.release()
  })

  test('adds no key prefix to channels, and works with other versions of the client', async () => {
    const clients = [redis.client({ keyPrefix: 'app:' }), redis.client({ protocol: 2 })]
    const { host, port } = redis
    const old = older('ioredis5', (lib: typeof import('ioredis')) =>
      redis.track(new lib.Redis({ host, port, keyPrefix: 'app:' })),
    )
    for (const client of [...clients, ...old]) {
      const { subscription, state } = ear(client, 'plain')
      subscription.hold()
      await eventually('live', async () => subscription.live)
      await publish('plain', 'text')
      await eventually('heard', async () => state.heard.length === 1)
      subscription.release()
      subscription.close()
    }
  })

  test('outlives a restart of the server', async () => {
    const server = await RedisServer.start()
    const client = server.client()
    const { subscription, state } = ear(client, 'restart')
    subscription.hold()
    await eventually('live', async () => subscription.live)
    await server.kill()
    await eventually('lost', async () => !subscription.live)
    await server.restart()
    await eventually('live again', async () => subscription.live)
    await server.client().publish('restart', 'text')
    await eventually('heard', async () => state.heard.length === 1)
    subscription.release()
    await server.stop()
  })

  test('on a cluster receives messages of all nodes, and moves to another node when its own dies', async () => {
    const cluster = await RedisCluster.start()
    const client = cluster.client()
    await client.ping()
    const { subscription, state } = ear(client, '{x}:news')
    subscription.hold()
    await eventually('live', async () => subscription.live)
    for (const node of cluster.nodes) await node.client().publish('{x}:news', String(node.port))
    await eventually('heard', async () => state.heard.length === 3)
    await Promise.all(cluster.nodes.map(node => node.client().call('CLIENT', 'KILL', 'TYPE', 'pubsub')))
    await eventually('live again', async () => state.lives === 2)
    await client.publish('{x}:news', 'again')
    await eventually('heard', async () => state.heard.at(-1) === 'again')
    subscription.release()
    await cluster.stop()
  }, 30_000)

  test('does not exist for a client that provides no connection to listen on', () => {
    expect(Subscriber.of({ evalsha: () => {} })).toBeUndefined()
  })
})
