import { describe, expect, test } from '@jest/globals'
import { AddressLists } from '../../../src/http/address/ranges.js'

describe('two lists', () => {
  const lists = new AddressLists(
    ['192.0.2.0/24', '10.1.1.1', '203.0.113.9', '2001:db8::/32'],
    ['192.0.2.66', '10.0.0.0/8', '203.0.113.9', '::/0'],
    'rateLimit',
  )

  test.each([
    ['192.0.2.7', 'allow'],
    ['192.0.2.66', 'deny'],
    ['10.1.1.1', 'allow'],
    ['10.1.1.2', 'deny'],
    ['2001:db8::1', 'allow'],
    ['2001:db9::1', 'deny'],
  ])('%s is judged by the narrower range: %s', (address, judgement) => {
    expect(lists.judge(address)).toBe(judgement)
  })

  test('of two equal ranges the denial counts', () => {
    expect(lists.judge('203.0.113.9')).toBe('deny')
  })

  test('ignore an address on neither list; a deny list reports text that is no address as unreadable', () => {
    const few = new AddressLists(['192.0.2.7'], ['10.0.0.0/8'], 'rateLimit')
    expect(few.judge('198.51.100.1')).toBeUndefined()
    expect(lists.judge('')).toBe('unreadable')
    expect(new AddressLists(['10.0.0.0/8'], [], 'rateLimit').judge('')).toBeUndefined()
    expect([few.isEmpty, new AddressLists([], [], 'rateLimit').isEmpty]).toEqual([false, true])
  })

  test('are named when one of them is invalid', () => {
    expect(() => new AddressLists(['nobody'], [], 'rateLimit')).toThrow('rateLimit: allow: "nobody"')
    expect(() => new AddressLists([], ['nobody'], 'rateLimit')).toThrow('rateLimit: deny: "nobody"')
  })
})
