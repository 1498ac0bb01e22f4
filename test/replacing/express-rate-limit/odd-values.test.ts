import { describe, expect, test } from '@jest/globals'
import express from 'express'
import { MemoryStore as SpillwayStore } from '../../../src/limiter/memory/memory-store.js'
import type { Options } from '../../../src/replacing/express-rate-limit/index.js'
import { OURS, sameOnBoth, World } from './world.js'

/** Values that plain JavaScript lets through. */
const ODD: [name: string, value: unknown][] = [
  ["'3'", '3'],
  ["'2.5'", '2.5'],
  ["' 3 '", ' 3 '],
  ["'three'", 'three'],
  ["''", ''],
  ['2.5', 2.5],
  ['-1', -1],
  ['0', 0],
  ['NaN', Number.NaN],
  ['Infinity', Number.POSITIVE_INFINITY],
  ['null', null],
  ['true', true],
  ['false', false],
  ['an object with valueOf', { valueOf: () => 2 }],
  ['an object of a text', Object('2')],
  ['an array', [2]],
  ['a plain object', {}],
]

const answers = (options: object) => (world: World) => world.times(4, world.serve(world.limiter(options)))

/** The statuses of four requests, or the error when the limiter is made. Errors are worded differently. */
const statuses =
  (options: object, from?: string) =>
  async (world: World): Promise<unknown> => {
    try {
      return await world.statuses(4, world.serve(world.limiter(options)), from)
    } catch (error) {
      return (error as Error).name
    } finally {
      for (const entry of world.logged) entry[1] = String(entry[1]).replace('config.', '')
    }
  }

describe('an odd value acts as in express-rate-limit', () => {
  test.each(ODD)('limit and max: %s, and functions that return it', async (_, value) => {
    for (const limit of [value, () => value, async () => value]) {
      await sameOnBoth(answers({ limit, standardHeaders: true }))
      await sameOnBoth(answers({ max: limit }))
    }
  })

  test.each([
    'headers',
    'identifier',
    'legacyHeaders',
    'message',
    'passOnStoreError',
    'requestPropertyName',
    'retryAfter',
    'skipFailedRequests',
    'skipSuccessfulRequests',
    'standardHeaders',
    'statusCode',
  ] satisfies (keyof Options)[])('%s', async option => {
    const standardHeaders = option === 'identifier' && 'draft-8'
    for (const [, value] of ODD) await sameOnBoth(answers({ limit: 1, standardHeaders, [option]: value }))
  })

  test.each(['handler', 'keyGenerator', 'requestWasSuccessful', 'skip', 'validate'] satisfies (keyof Options)[])(
    '%s',
    async option => {
      const skipFailedRequests = option === 'requestWasSuccessful'
      for (const [, value] of ODD) await sameOnBoth(statuses({ limit: 1, skipFailedRequests, [option]: value }))
    },
  )

  test('ipv6Subnet', async () => {
    for (const [, value] of [...ODD, ['', '56'], ['', 129]]) {
      await sameOnBoth(statuses({ limit: 1, ipv6Subnet: value }, '2001:db8::1'))
    }
  })

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
    await sameOnBoth(statuses({ limit: 2, windowMs }))
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
