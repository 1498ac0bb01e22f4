import { expect, test } from '@jest/globals'
import { concurrencyLimit } from '../../../src/http/adapters/express.js'
import { RedisStore } from '../../../src/index.js'
import { testRedis } from '../../support/test-redis.js'
import { warnings } from '../../support/warnings.js'

const redis = testRedis()
const warned = warnings()

test('two concurrency limits without names over one Redis cause one warning; apart they do not', async () => {
  const client = redis.client()
  const limits = [
    concurrencyLimit({ permits: 5, client }),
    concurrencyLimit({ permits: 5, client, name: 'uploads' }),
    concurrencyLimit({ permits: 5, client, prefix: 'other' }),
    concurrencyLimit({ permits: 5, client: redis.client() }),
    concurrencyLimit({ permits: 5 }),
    concurrencyLimit({ permits: 5 }),
    concurrencyLimit({ permits: 5, client, name: 'default' }),
  ]
  expect(warned.textsOf('SPILLWAY_SHARED')).toEqual([])
  limits.push(concurrencyLimit({ permits: 3, store: new RedisStore(client) }), concurrencyLimit({ permits: 3, client }))
  expect(warned.textsOf('SPILLWAY_SHARED')).toEqual([
    expect.stringMatching(/one Redis and no name, so they share their places: .*name: "uploads"/),
  ])
  for (const limit of limits) await limit.close()
})
