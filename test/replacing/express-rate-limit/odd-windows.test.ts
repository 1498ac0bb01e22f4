import { describe, expect, test } from '@jest/globals'
import express from 'express'
import { MemoryStore as SpillwayStore } from '../../../src/limiter/memory/memory-store.js'
import { OURS, sameOnBoth, World } from './world.js'

describe('an odd window acts as in express-rate-limit', () => {
  test.each<[string, unknown]>([
    ["'900000'", '900000'],
    ["'9e5'", '9e5'],
    ["' 900000 '", ' 900000 '],
    ['an object of a text', Object('900000')],
    ['an array', ['900000']],
    ['an object with valueOf', { valueOf: () => 900_000 }],
    ['900000.5', 900_000.5],
    ['0.5', 0.5],
    ['0', 0],
    ['-1', -1],
    ['null', null],
    ['false', false],
  ])('windowMs %s: the same requests pass, with the same warning', async (_, windowMs) => {
    const options = { limit: 2, windowMs } as object
    await sameOnBoth(world => world.statuses(4, world.serve(world.limiter(options))))
  })
})

describe('a window whose length express-rate-limit cannot reckon with', () => {
  const limited = (options: object) => {
    const world = new World(OURS, express)
    return world.times(3, world.serve(world.limiter({ limit: 2, ...options })))
  }

  test.each<[string, unknown, seconds: string]>([
    // There: "NaN" seconds, and the count of a busy client never ends.
    ["'900000'", '900000', '900'],
    // There a timer forgets all counts each millisecond.
    ["'a minute'", 'a minute', '60'],
    ["''", '', '60'],
    ['NaN', Number.NaN, '60'],
    ['Infinity', Number.POSITIVE_INFINITY, '60'],
    ['a function', () => 900_000, '60'],
  ])('windowMs %s: a limit all the same, for as long as the header says', async (_, windowMs, seconds) => {
    const seen = await limited({ windowMs })
    expect(seen.map(({ status }) => status)).toEqual([200, 200, 429])
    expect(seen[2].headers['retry-after']).toBe(seconds)
  })

  test.each([
    ['900000', '900'],
    ['15m', '900'],
    [Number.NaN, '60'],
  ])('windowMs %s with an algorithm and with a store of spillway too', async (windowMs, seconds) => {
    for (const more of [{ algorithm: 'sliding-window' }, { store: new SpillwayStore() }]) {
      const seen = await limited({ windowMs, limit: '2', ...more })
      expect(seen.map(({ status, headers }) => [status, headers['retry-after']])).toEqual([
        [200, undefined],
        [200, undefined],
        [429, seconds],
      ])
    }
  })
})
