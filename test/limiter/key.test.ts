import { describe, expect, test } from '@jest/globals'
import { PolicyError } from '../../src/limiter/core/errors.js'
import { parsePolicy } from '../../src/limiter/core/limit.js'
import { keysOf, limiterKey } from '../../src/limiter/key.js'
import { RateLimiter, type RateLimiterOptions } from '../../src/limiter/rate-limiter.js'
import type { Charge } from '../../src/limiter/store.js'
import { StubStore } from '../support/stub-store.js'

const TEXT = '10/1s name=ip; 1000/1h name=user; 50000/1h name=all'
const policy = parsePolicy(TEXT)
type KeyRecord = Parameters<typeof keysOf>[1]

const charges = (key: KeyRecord, under = policy) => {
  const { places, keys } = keysOf(under, key)
  return places.map((place, i) => `${under[place].name} ${keys[i]}`)
}
/** What a store is asked for a key. */
async function asked(options: RateLimiterOptions, key: string | KeyRecord) {
  const store = new StubStore()
  const seen: Charge[] = []
  const { answer } = store
  store.answer = (charges, cost) => {
    seen.push(...charges)
    return answer(charges, cost)
  }
  await new RateLimiter({ ...options, store }).consume(key)
  return seen
}

describe('the keys of a decision', () => {
  test.each(['k', ''])('a text is the key of every limit (%p)', async key => {
    expect(await asked({ policy: TEXT }, key)).toEqual(policy.map(limit => ({ key, limit, limiter: undefined })))
    expect((await asked({ policy: '1/1s' }, key)).map(charge => [charge.limit.name, charge.key])).toEqual([
      ['1-per-1s', key],
    ])
  })

  test('a record has a key for each limit, in the order of the policy', () => {
    expect(charges({ all: 'everyone', ip: 'a', user: 'u' })).toEqual(['ip a', 'user u', 'all everyone'])
  })

  test('a limit without a key is skipped', () => {
    expect(charges({ user: 'u' })).toEqual(['user u'])
    expect(charges({ ip: undefined, all: 'everyone' })).toEqual(['all everyone'])
  })

  test('the name of the limiter is part of it, because limiters of different names share nothing', async () => {
    const given = { policy: TEXT, name: 'login' }
    expect(await asked(given, { ip: 'a' })).toEqual([{ key: 'a', limit: policy[0], limiter: 'login' }])
    expect((await asked(given, 'a')).map(({ limiter }) => limiter)).toEqual(['login', 'login', 'login'])
  })

  test('an inherited property of a record is not a key', () => {
    const odd = parsePolicy('1/1s name=toString; 1/1m name=__proto__; 1/1h name=own')
    expect(charges({ own: 'k' }, odd)).toEqual(['own k'])
    expect(charges({ ['__proto__']: 'p', own: 'k' }, odd)).toEqual(['__proto__ p', 'own k'])
  })

  test.each<[string, unknown, string]>([
    ['a record without keys', {}, 'key: given a record without any key, expected one for at least one limit'],
    ['a record of undefined keys', { ip: undefined }, 'key: given a record without any key'],
    ['a key that is a number', { ip: 7 }, 'key 7 for limit "ip": expected a text, like "user:42"'],
    ['a key that is null', { ip: null }, 'key null for limit "ip": expected a text'],
    [
      'a limit that is none',
      { ip: 'a', usr: 'u' },
      'key for limit "usr": the policy has no such limit, only "ip", "user", "all"',
    ],
  ])('%s is refused', (_, key, message) => {
    const attempt = () => keysOf(policy, key as KeyRecord)
    expect(attempt).toThrow(PolicyError)
    expect(attempt).toThrow(message)
  })
})

describe('a key that is given', () => {
  test('as a number is its text, in a record too', () => {
    expect([42, 0, -0, -1.5, 1e21].map(limiterKey)).toEqual(['42', '0', '0', '-1.5', '1e+21'])
    expect(limiterKey({ ip: 'a', user: 7, all: undefined })).toEqual({ ip: 'a', user: '7', all: undefined })
    expect(limiterKey('42')).toBe('42')
  })

  test.each<[string, unknown]>([
    ['undefined', undefined],
    ['null', null],
    ['true', true],
  ])('as %s is refused', (text, key) => {
    const attempt = () => limiterKey(key as string)
    expect(attempt).toThrow(PolicyError)
    expect(attempt).toThrow(`key ${text}: expected a text, like "user:42", or a record of them by limit`)
  })

  test.each([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])('as %p is refused', key => {
    for (const given of [key, { ip: key }]) {
      expect(() => limiterKey(given)).toThrow(PolicyError)
      expect(() => limiterKey(given)).toThrow(`key ${key}: expected a text or a finite number, like 42`)
    }
  })

  test('as a number counts with its text in every method of a limiter', async () => {
    const limiter = new RateLimiter({ policy: '3/1m' })
    expect((await limiter.consume(42)).key).toBe('42')
    expect((await limiter.acquire(42)).remaining).toBe(1)
    expect((await limiter.peek('42', 0)).remaining).toBe(1)
    await limiter.charge(42)
    await limiter.refund(42, 2)
    expect((await limiter.peek(42, 0)).remaining).toBe(2)
    await limiter.block(42, '1h')
    expect((await limiter.consume('42')).blocked).toBe(true)
    await limiter.unblock(42)
    await limiter.reset(42)
    expect((await limiter.peek('42', 0)).remaining).toBe(3)
    await expect(limiter.consume(Number.NaN)).rejects.toThrow(PolicyError)
  })
})
