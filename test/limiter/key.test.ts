import { describe, expect, test } from '@jest/globals'
import { PolicyError } from '../../src/core/errors.js'
import { parsePolicy } from '../../src/core/limit.js'
import { chargesOf, type LimiterKey } from '../../src/limiter/key.js'

const policy = parsePolicy('10/1s name=ip; 1000/1h name=user; 50000/1h name=all')
const charges = (key: LimiterKey, under = policy) =>
  chargesOf(under, key, undefined).map(charge => `${charge.limit.name} ${charge.key}`)

describe('what a key is charged', () => {
  test('a text is the key of every limit', () => {
    expect(charges('k')).toEqual(['ip k', 'user k', 'all k'])
    expect(charges('k', parsePolicy('1/1s'))).toEqual(['1-per-1s k'])
    expect(charges('')).toEqual(['ip ', 'user ', 'all '])
  })

  test('a record has a key for each limit, in the order of the policy', () => {
    expect(charges({ all: 'everyone', ip: 'a', user: 'u' })).toEqual(['ip a', 'user u', 'all everyone'])
  })

  test('a limit without a key is not asked', () => {
    expect(charges({ user: 'u' })).toEqual(['user u'])
    expect(charges({ ip: undefined, all: 'everyone' })).toEqual(['all everyone'])
  })

  test('the limiter is told, since limiters of different names share nothing', () => {
    expect(chargesOf(policy, { ip: 'a' }, 'login')).toEqual([{ key: 'a', limit: policy[0], limiter: 'login' }])
    expect(chargesOf(policy, 'a', 'login').map(({ limiter }) => limiter)).toEqual(['login', 'login', 'login'])
  })

  test('what a record inherits is no key', () => {
    const odd = parsePolicy('1/1s name=toString; 1/1m name=__proto__; 1/1h name=own')
    expect(charges({ own: 'k' }, odd)).toEqual(['own k'])
    expect(charges({ ['__proto__']: 'p', own: 'k' }, odd)).toEqual(['__proto__ p', 'own k'])
  })

  test.each<[string, unknown, string]>([
    ['a number', 5, 'key 5: expected a text, like "user:42", or a record of them by limit'],
    ['nothing', undefined, 'key undefined: expected a text'],
    ['null', null, 'key null: expected a text'],
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
    const attempt = () => chargesOf(policy, key as LimiterKey, undefined)
    expect(attempt).toThrow(PolicyError)
    expect(attempt).toThrow(message)
  })
})
