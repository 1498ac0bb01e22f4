import { describe, expect, test } from '@jest/globals'
import { randomFrom } from '../support/random.js'
import { flatness } from './flat.js'

const random = randomFrom('flat')
const noisy = (rise: number, scatter: number) =>
  Array.from({ length: 360 }, (_, i) => 100 + (rise * i) / 360 + scatter * (random.integer(0, 2000) / 1000 - 1))

describe('a series', () => {
  test('that scatters around one value, falls, or rises by less than 2 % is flat', () => {
    for (let i = 0; i < 50; i++) {
      expect(flatness(noisy(0, 10))).toMatchObject({ flat: true })
      expect(flatness(noisy(-20, 3))).toMatchObject({ flat: true })
      expect(flatness(noisy(1.8, 0.2))).toMatchObject({ flat: true })
    }
    expect(flatness(new Array(12).fill(7))).toMatchObject({ first: 7, last: 7, rise: 0, noise: 0, flat: true })
  })

  test('that leaks is not, however much it scatters', () => {
    for (let i = 0; i < 50; i++) expect(flatness(noisy(20, 30))).toMatchObject({ flat: false })
    const stairs = Array.from({ length: 360 }, (_, i) => 100 + Math.floor(i / 60) * 4)
    expect(flatness(stairs)).toMatchObject({ flat: false })
  })

  test('that is too short says so', () => {
    expect(() => flatness([1, 2])).toThrow('given 2 samples, expected at least 12')
  })
})
