import { afterEach, describe, expect, test } from '@jest/globals'
import { RedisSentinel, type RedisSentinelOptions } from './redis-sentinel.js'

describe('Redis under sentinels for tests', () => {
  let group: RedisSentinel | undefined
  const start = async (options?: RedisSentinelOptions) => {
    group = await RedisSentinel.start(options)
    return group
  }
  afterEach(async () => {
    await group?.stop()
    group = undefined
  })

  test('a failover on demand makes the replica the primary, with the data, and clients follow', async () => {
    const redis = await start()
    const client = redis.client()
    const [before, replica] = [await redis.primary(), await redis.replica()]
    await client.set('k', '1')
    await client.wait(1, 1000)
    expect(await redis.failover()).toBe(replica)
    expect(await redis.primary()).toBe(replica)
    expect(await redis.replica()).toBe(before)
    expect(await client.set('k', '2')).toBe('OK')
    expect(await replica.client().get('k')).toBe('2')
  }, 30_000)

  test('a primary that is killed is replaced, three sentinels agreeing', async () => {
    const redis = await start({ sentinels: 3 })
    const [before, replica] = [await redis.primary(), await redis.replica()]
    await before.kill()
    expect(await redis.promoted(before)).toBe(replica)
    expect(await redis.client().set('k', '1')).toBe('OK')
  }, 30_000)
})
