import { constants, deflateRawSync } from 'node:zlib'
import { expect, test } from '@jest/globals'
import { inflate } from '../../src/redis/packed-texts.js'
import { forCases } from '../support/cases.js'

const packed = (text: string, options = {}) => deflateRawSync(text, { level: 9, ...options })

test('what zlib has compressed is unpacked, whatever it is', () =>
  forCases(200, 'packed json', async random => {
    const words = Array.from(
      { length: random.integer(1, 40) },
      () => '€x'.repeat(random.integer(0, 9)) + random.integer(0, 99),
    )
    const text = Array.from({ length: random.integer(1, 4000) }, () => random.pick(words)).join(
      random.pick(['', ' ', '\n']),
    )
    for (const strategy of [constants.Z_DEFAULT_STRATEGY, constants.Z_FIXED, constants.Z_HUFFMAN_ONLY]) {
      expect(Buffer.from(inflate(packed(text, { strategy }))).toString()).toBe(text)
    }
  }))

test('copies from as far away as possible, as long as possible, are unpacked', () => {
  const far = Array.from({ length: 32_768 }, (_, i) => String.fromCharCode(33 + ((i * i * 7919) % 90))).join('')
  const text = far + far + 'z'.repeat(70_000)
  expect(Buffer.from(inflate(packed(text))).toString()).toBe(text)
})
