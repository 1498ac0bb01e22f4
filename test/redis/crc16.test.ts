import { describe, expect, test } from '@jest/globals'
import { crc16 } from '../../src/redis/keys.js'
import { hostileKeys } from '../support/store-contract.js'
import { testRedis } from '../support/test-redis.js'

describe('CRC16', () => {
  const redis = testRedis({ args: ['--cluster-enabled', 'yes'] })

  test('agrees with the specification: XMODEM', () => {
    expect(crc16('123456789')).toBe(0x31c3)
    expect(crc16('')).toBe(0)
  })

  test('gives the same slot as Redis, for any text without a hash tag', async () => {
    const client = redis.client()
    const texts = hostileKeys().filter(text => !text.includes('{'))
    const slots = await Promise.all(texts.map(text => client.cluster('KEYSLOT', text)))
    expect(texts.map(text => crc16(text) % 16_384)).toEqual(slots)
  })

  test('spreads keys evenly over 256 tags', () => {
    const counts = new Array(256).fill(0)
    for (let i = 0; i < 25_600; i++) counts[crc16(`user:${i}`) % 256]++
    expect(Math.min(...counts)).toBeGreaterThan(60)
    expect(Math.max(...counts)).toBeLessThan(140)
  })
})
