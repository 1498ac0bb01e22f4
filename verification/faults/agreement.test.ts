import { describe, test } from '@jest/globals'
import { RedisStore } from '../../src/redis/store/redis-store.js'
import { expectAgreement, KINDS } from '../../test/support/agreement.js'
import { testRedis } from '../../test/support/test-redis.js'

const redis = testRedis()

describe('over a million random operations memory and Redis agree on every field of every verdict', () => {
  test.each(KINDS)(
    '%s (%p)',
    (_, algorithms, part) =>
      expectAgreement(
        (clock, prefix) => new RedisStore(redis.client(), { clock, prefix }),
        algorithms,
        1_000_000 * part,
      ),
    120_000,
  )
})
