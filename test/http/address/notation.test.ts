import { isIPv4 as isIPv4ForNode, isIPv6 } from 'node:net'
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { formatIPv6, isIPv4, readIPv6 } from '../../../src/http/address/address.js'
import { ofCases } from '../../support/cases.js'

test('a text is an IPv6 address exactly if Node says so', () => {
  const piece = fc.constantFrom('0', '1', 'ab', 'FFFF', '12345', 'g', ':', ':', ':', ':', '::', '1.2.3.4', '1.2', '.')
  const likely = fc.tuple(fc.array(fc.constantFrom('0:', '1f:', ':', 'ABCD:'), { maxLength: 9 }), piece)
  const text = fc.oneof(
    fc.array(piece, { maxLength: 17 }).map(pieces => pieces.join('')),
    likely.map(([pieces, last]) => pieces.join('') + last),
  )
  fc.assert(
    fc.property(text, text => {
      expect([text, readIPv6(text) !== undefined]).toEqual([text, isIPv6(text)])
    }),
    { numRuns: ofCases(10_000) },
  )
})

test('a text is an IPv4 address exactly if Node says so', () => {
  const byte = fc.oneof(fc.nat(300).map(String), fc.constantFrom('', '00', '01', '0', 'a', '-1', '1e1', ' 1'))
  fc.assert(
    fc.property(fc.array(byte, { minLength: 3, maxLength: 5 }), bytes => {
      const text = bytes.join('.')
      expect([text, isIPv4(text)]).toEqual([text, isIPv4ForNode(text)])
    }),
    { numRuns: ofCases(10_000) },
  )
})

test('a written address is read back', () => {
  const word = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 0xffff }))
  fc.assert(
    fc.property(fc.array(word, { minLength: 8, maxLength: 8 }), groups => {
      expect(readIPv6(formatIPv6(groups))).toEqual(groups)
    }),
  )
})
