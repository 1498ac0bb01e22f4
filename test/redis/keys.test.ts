import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { clientSegment, keySegment } from '../../src/limiter/core/key-segment.js'
import { anyCharacter } from '../support/any-character.js'
import { ofCases } from '../support/cases.js'
import { hostileKeys } from '../support/store-contract.js'

describe('a segment of a Redis key', () => {
  test.each(['user:42'.replace(':', '-'), '192.0.2.1', 'a b', 'me@example.org', '/path/~x', 'A_b-9'])(
    'shows %p as it is',
    name => expect(keySegment(name)).toBe(name),
  )

  test.each([
    ['', '%'],
    ['a:b', 'a%3ab'],
    ['{x}', '%7bx%7d'],
    ['100%', '100%25'],
    ['#1', '%231'],
    ['\0', '%00'],
    ['\r\n', '%0d%0a'],
    ['\u0085', '%85'],
    ['\ud800', '%ud800'],
    ['é😀', 'é😀'],
    ['2001:db8::1', '2001%3adb8%3a%3a1'],
  ])('writes %j as %j', (name, segment) => expect(keySegment(name)).toBe(segment))

  test.each([
    ['user:42', 'user:42'],
    ['2001:db8::/56', '2001:db8::/56'],
    [':{a}:', ':%7ba%7d:'],
    ['', '%'],
    ['%3a', '%253a'],
  ])('that names a client keeps its colons: %j as %j', (name, segment) => expect(clientSegment(name)).toBe(segment))

  test('of a long name has a bounded length', () => {
    const lengths = new Set([201, 1000, 10_240, 1_000_000].map(length => keySegment('x'.repeat(length)).length))
    expect([...lengths]).toEqual([44])
  })

  const anyName = fc.oneof(
    fc.string({ unit: anyCharacter }),
    fc.string({ unit: 'grapheme' }),
    fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 5 }).map(units => String.fromCharCode(...units)),
    fc
      .array(fc.constantFrom('%', 'u', 'd', '8', '0', '7', 'b', '{', '}', ':', '#', '\ud800', '\udc00', 'a'), {
        maxLength: 8,
      })
      .map(letters => letters.join('')),
    fc.integer({ min: 195, max: 205 }).map(length => 'é'.repeat(length)),
  )

  test('contains no separator of keys, and can be sent as UTF-8', () => {
    fc.assert(
      fc.property(anyName, name => {
        const segment = keySegment(name)
        expect(segment).toMatch(/^[^:{}\p{Cc}\p{Cs}]+$/u)
        expect(Buffer.from(segment).toString()).toBe(segment)
      }),
      { numRuns: ofCases(3000) },
    )
  })

  test('is never the same for two names', () => {
    const names = new Map<string, string>()
    const add = (name: string) => {
      const segment = keySegment(name)
      const other = names.get(segment)
      if (other !== undefined && other !== name) throw new Error(`${JSON.stringify([name, other])} meet in ${segment}`)
      names.set(segment, name)
      return segment
    }
    // What a name is written as is a name too.
    const meet = (name: string) => {
      add(add(name))
    }
    for (const name of hostileKeys()) meet(name)
    fc.assert(fc.property(anyName, meet), { numRuns: ofCases(10_000) })
    expect(names.size).toBeGreaterThan(ofCases(2000))
  })
})
