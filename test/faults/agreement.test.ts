import { afterAll, beforeAll, describe, test } from '@jest/globals'
import { expectAgreement, KINDS } from '../support/agreement.js'
import { RedisServer } from '../support/redis-server.js'

let redis: RedisServer
beforeAll(async () => {
  redis = await RedisServer.start()
})
afterAll(() => redis.stop())

describe('over a million random operations memory and Redis agree on every field of every verdict', () => {
  test.each(KINDS)(
    '%s (%p)',
    (_, algorithms, part) => expectAgreement(redis.client(), algorithms, 1_000_000 * part),
    120_000,
  )
})
