import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { printable, printableJson, printableWithin } from '../../../src/limiter/core/printable.js'
import { anyCharacter } from '../../support/any-character.js'

const DANGEROUS = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u
const anyText = fc.string({
  unit: fc.oneof(anyCharacter, fc.constantFrom('\x1b', '\x9b', '\0', '\u202e', '\ud800')),
})

test.each([
  ['\x1b[31mred', '\\x1b[31mred'],
  ['\x9b31m', '\\x9b31m'],
  ['a\0b\r\n\t', 'a\\x00b\\x0d\\x0a\\x09'],
  ['\u202egnp.exe', '\\u{202e}gnp.exe'],
  ['\ud800', '\\u{d800}'],
  ['jörg 漢 🦊', 'jörg 漢 🦊'],
])('%j is printed as %s', (text, expected) => {
  expect(printable(text)).toBe(expected)
})

test('no text moves a cursor, rings a bell or turns the direction of writing', () => {
  fc.assert(
    fc.property(anyText, fc.integer({ min: 4, max: 40 }), (text, width) => {
      expect(printable(text)).not.toMatch(DANGEROUS)
      expect(printableWithin(text, width)).not.toMatch(DANGEROUS)
      expect([...printableWithin(text, width)].length).toBeLessThanOrEqual(width)
    }),
  )
})

test('a long text is cut, a short one is not', () => {
  expect(printableWithin('abcdef', 6)).toBe('abcdef')
  expect(printableWithin('abcdefg', 6)).toBe('abc...')
})

test('printable JSON has the same meaning, and no effect on a terminal', () => {
  fc.assert(
    fc.property(anyText, text => {
      const json = printableJson({ [text]: [text] })
      expect(json.replaceAll('\n', '')).not.toMatch(DANGEROUS)
      expect(JSON.parse(json)).toEqual({ [text]: [text] })
    }),
  )
})
