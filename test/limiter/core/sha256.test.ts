import { createHash } from 'node:crypto'
import { expect, test } from '@jest/globals'
import { randomText, sha256 } from '../../../src/limiter/core/short-key.js'
import { randomFrom } from '../../support/random.js'

const byNode = (text: string) => createHash('sha256').update(Buffer.from(text, 'utf16le')).digest('base64url')

test('is the SHA-256 of Node, for every length around the ends of blocks', () => {
  const random = randomFrom('sha256')
  for (let length = 0; length < 300; length++) {
    const units = Array.from({ length }, () => random.integer(0, 0xffff))
    const text = String.fromCharCode(...units)
    expect(sha256(text)).toBe(byNode(text))
  }
})

test('distinguishes lone surrogates', () => {
  expect(sha256('\ud800')).toBe(byNode('\ud800'))
  expect(sha256('\ud800')).not.toBe(sha256('\ud801'))
})

test('a random text has so many letters of base64url, and is another each time', () => {
  const texts = Array.from({ length: 1000 }, () => randomText(12))
  for (const text of texts) expect(text).toMatch(/^[\w-]{12}$/)
  expect(new Set(texts).size).toBe(1000)
  expect(new Set(texts.join('')).size).toBe(64)
})
