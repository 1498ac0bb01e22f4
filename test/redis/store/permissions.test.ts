import { expect, test } from '@jest/globals'
import { Redis } from 'ioredis'
import { RateLimiter, RedisStore } from '../../../src/index.js'
import { ALGORITHM_NAMES } from '../../../src/limiter/core/limit.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()

// A read that fails is no key without a count.
test.each(ALGORITHM_NAMES)('%s: without the right to read its counts, nothing is let pass', async algorithm => {
  const read = algorithm === 'sliding-window' ? 'lrange' : 'get'
  await redis.client().call('ACL', 'SETUSER', 'app', 'reset', 'on', '>s3cret', '~*', '&*', '+@all', `-${read}`)
  const client = new Redis({ host: redis.host, port: redis.port, username: 'app', password: 's3cret' })
  const store = new RedisStore(client)
  const options = { store, onStoreFailure: 'closed', deadline: '5s', observer: {} } as const
  const one = new RateLimiter({ ...options, name: 'one', policy: `3/1h ${algorithm}` })
  const both = [`3/1h ${algorithm} name=hour`, `9/1d ${algorithm} name=day`]
  const two = new RateLimiter({ ...options, name: 'two', policy: both })
  const decided = [
    await one.consume('alone'),
    ...(await Promise.all(['a', 'b'].map(key => one.consume(key)))),
    await two.consume('alone'),
    ...(await Promise.all(['a', 'b'].map(key => two.consume(key)))),
  ]
  expect(decided.map(({ allowed, source }) => [allowed, source])).toEqual(Array(6).fill([false, 'closed']))
  await expect(one.refund('alone')).rejects.toThrow("can't run this command")
  client.disconnect()
})
