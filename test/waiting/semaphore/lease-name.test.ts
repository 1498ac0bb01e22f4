import { expect, test } from '@jest/globals'
import { leaseFacts, newLeaseName } from '../../../src/waiting/semaphore/lease-name.js'

const COUNT = 1000
const BITS = 128

test('tells permits, since when, and which process; at most 100 characters, however many permits', () => {
  const before = Date.now()
  const name = newLeaseName(Number.MAX_SAFE_INTEGER, `${'p'.repeat(12)}/1234567`)
  expect(leaseFacts(name)).toEqual({
    permits: Number.MAX_SAFE_INTEGER,
    since: expect.any(Number),
    heldBy: 'p'.repeat(12),
  })
  expect(leaseFacts(name).since).toBeGreaterThanOrEqual(before)
  expect(leaseFacts(name).since).toBeLessThanOrEqual(Date.now())
  expect(name.length).toBeLessThanOrEqual(100)
})

test('each lease id has 128 random bits of its own: an id reveals nothing about the next, and no bit is the same in all', () => {
  const ids = Array.from({ length: COUNT }, () => Buffer.from(newLeaseName(1, 'p/1').split('.')[3], 'base64url'))
  const bitsOf = (id: Buffer) => [...id].flatMap(byte => Array.from({ length: 8 }, (_, i) => (byte >> i) & 1))
  const bits = ids.map(bitsOf)
  expect(bits.every(each => each.length === BITS)).toBe(true)
  // Half of a thousand, by seven standard deviations.
  for (let bit = 0; bit < BITS; bit++) {
    const set = bits.reduce((sum, each) => sum + each[bit], 0)
    expect(Math.abs(set - COUNT / 2)).toBeLessThan(7 * Math.sqrt(COUNT / 4))
  }
  // So many bits differ from the id before, again by seven.
  for (let i = 1; i < COUNT; i++) {
    const differing = bits[i].filter((bit, at) => bit !== bits[i - 1][at]).length
    expect(Math.abs(differing - BITS / 2)).toBeLessThan(7 * Math.sqrt(BITS / 4))
  }
})
