import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { BlockRule } from '../../src/limiter/block-rule.js'
import { ALGORITHM_NAMES, hasBurst, type Limit, parseLimit, parsePolicy } from '../../src/limiter/core/limit.js'
import type { Charge, Store } from '../../src/limiter/store.js'
import { describeAlgorithm } from './algorithm-contract.js'
import { testCounts } from './count-contract.js'
import { strikeIn } from './counts.js'
import { type Whole, wholeFor } from './everywhere.js'
import { Subject } from './scenario.js'
import { benchesOf, OFFERS, type StoreMaker } from './store-benches.js'
import { START, STORIES } from './stories.js'
import { expectSameVerdict, expectSameVerdicts, freshVerdict } from './verdicts.js'

/** What every store promises; of a client that only carries the calls of `RedisStore`, what depends on it. */
export function describeStore(name: string, maker: StoreMaker): void {
  const whole = wholeFor(maker.whole === true)
  describe(name, () => {
    beforeAll(async () => void (await maker.start?.()), 60_000)
    afterAll(async () => void (await maker.stop?.()))
    describeAnyAlgorithm(maker, whole)
    if (whole.runs) for (const algorithm of ALGORITHM_NAMES) describeAlgorithm(algorithm, maker)
  })
}

function describeAnyAlgorithm(maker: StoreMaker, whole: Whole): void {
  const onBench = benchesOf(maker)

  test('offers what a store may leave out', () =>
    onBench(async ({ store }) => expect(OFFERS.filter(name => store[name] === undefined)).toEqual([])))

  describe('tells the story of', () => {
    test.each(STORIES)('%s', (policy, rows) =>
      onBench(async ({ store, clock }) => {
        const [limit] = parsePolicy(policy)
        const charges: Charge[] = [{ key: 'client', limit }]
        for (const [at, cost, allowed, remaining, retryAfterMs, resetAfterMs, why, delayMs = 0] of rows) {
          clock.set(START + at)
          const expected = { at, why, limit, allowed, remaining, retryAfterMs, resetAfterMs, delayMs }
          const [foreseen] = await store.peek(charges, cost)
          expect({ at, why: `${why} (peek)`, ...foreseen }).toEqual({ ...expected, why: `${why} (peek)` })
          const [verdict] = await store.consume(charges, cost)
          expect({ at, why, ...verdict }).toEqual(expected)
        }
      }),
    )
  })

  describe('several limits', () => {
    test('may have keys of their own', () =>
      onBench(async ({ store }) => {
        const [perIp, perUser, all] = parsePolicy(
          '2/1s name=ip; 3/1s fixed-window name=user; 4/1s token-bucket name=all',
        )
        const ask = (ip: string, user: string) =>
          store.consume(
            [
              { key: ip, limit: perIp },
              { key: user, limit: perUser },
              { key: 'service', limit: all },
            ],
            1,
          )
        const left = async (ip: string, user: string) => (await ask(ip, user)).map(verdict => verdict.remaining)
        expect(await left('a', 'x')).toEqual([1, 2, 3])
        expect(await left('b', 'x')).toEqual([1, 1, 2])
        expect(await left('a', 'y')).toEqual([0, 2, 1])
        expect((await ask('a', 'x')).map(({ allowed }) => allowed)).toEqual([false, true, true])
        expect(await left('c', 'z')).toEqual([1, 2, 0])
        expect((await ask('d', 'z')).map(({ allowed, remaining }) => [allowed, remaining])).toEqual([
          [true, 2],
          [true, 2],
          [false, 0],
        ])
      }))

    test('sixteen at once', () =>
      onBench(async ({ store }) => {
        const policy = parsePolicy(
          Array.from({ length: 16 }, (_, i) => ({
            quota: 16 + i,
            window: '1m',
            algorithm: ALGORITHM_NAMES[i % 5],
            name: `${i}`,
          })),
        )
        const charges = policy.map(limit => ({ key: 'k', limit }))
        const many = await Promise.all(Array.from({ length: 20 }, () => store.consume(charges, 1)))
        expect(many.map(verdicts => verdicts[0].allowed)).toEqual(Array.from({ length: 20 }, (_, i) => i < 16))
        expect(many[15].map(verdict => verdict.remaining)).toEqual(Array.from({ length: 16 }, (_, i) => i))
        expect(many[19].map(verdict => verdict.remaining)).toEqual(Array.from({ length: 16 }, (_, i) => i))
      }))
  })

  describe('keeps apart', () => {
    const limit = parseLimit({ quota: 1, window: '1m' })

    test.each<[string, Charge[]]>([
      [
        'limits that differ in name, algorithm or window',
        [
          limit,
          parseLimit({ quota: 1, window: '1m', name: 'other' }),
          parseLimit({ quota: 1, window: '2m', name: limit.name }),
          ...ALGORITHM_NAMES.slice(0, 1).map(algorithm => parseLimit({ quota: 1, window: '1m', algorithm })),
          parseLimit({ quota: 1, window: '1m', algorithm: 'token-bucket' }),
          parseLimit({ quota: 1, window: '1m', algorithm: 'leaky-bucket' }),
          parseLimit({ quota: 1, window: '1m', algorithm: 'sliding-counter' }),
        ].map(limit => ({ key: 'k', limit })),
      ],
      [
        'limiters of different names',
        ['a', 'b', 'a:b', 'A', '', ' ', '{a}', undefined].map(limiter => ({ key: 'k', limit, limiter })),
      ],
      ['keys that look alike', hostileKeys().map(key => ({ key, limit }))],
      [
        'parts that could be joined to the same whole',
        [
          ['a', 'b:c', 'd'],
          ['a:b', 'c', 'd'],
          ['a', 'b', 'c:d'],
          ['a}', 'b', 'c'],
          ['a', '}b', 'c'],
          ['a%3a', 'b', 'c'],
          ['a:', 'b', 'c'],
          ['a', ':b', 'c'],
          ['a"', ',"b', 'c'],
          ['a', '","b', 'c'],
        ].map(([key, limiter, name]) => ({ key, limiter, limit: parseLimit({ quota: 1, window: '1m', name }) })),
      ],
    ])('%s', (_, charges) =>
      onBench(async ({ store }) => {
        const first = await Promise.all(charges.map(charge => store.consume([charge], 1)))
        charges.forEach((charge, i) => {
          expect([charge.key, charge.limiter, first[i][0].allowed]).toEqual([charge.key, charge.limiter, true])
        })
        const second = await Promise.all(charges.map(charge => store.consume([charge], 1)))
        expect(second.map(([verdict]) => verdict.allowed)).toEqual(charges.map(() => false))
        const some = charges.filter((_, i) => i % 2 === 0)
        await Promise.all(some.map(charge => store.reset([charge])))
        const third = await Promise.all(charges.map(charge => store.consume([charge], 1)))
        expect(third.map(([verdict]) => verdict.allowed)).toEqual(charges.map((_, i) => i % 2 === 0))
      }),
    )

    whole.test('not the counts of equal limits that were parsed twice', () =>
      onBench(async ({ store }) => {
        for (let i = 0; i < 3; i++)
          await store.consume([{ key: 'k', limit: parseLimit({ quota: 3, window: '1s' }) }], 1)
        const again = parseLimit({ quota: 3, window: 1000 })
        expect((await store.consume([{ key: 'k', limit: again }], 1))[0].allowed).toBe(false)
        expect((await store.consume([{ key: 'k', limit: again, limiter: 'default' }], 1))[0].allowed).toBe(false)
      }),
    )
  })

  whole.describe('a count', () => testCounts(onBench))

  whole.describe('forgets and gives back', () => {
    const policy = parsePolicy(
      ALGORITHM_NAMES.map((algorithm, i) => ({ quota: 10 + i, window: '1m', algorithm, name: algorithm })),
    )
    const charges = policy.map(limit => ({ key: 'k', limit }))
    const left = (verdicts: Awaited<ReturnType<Store['peek']>>) => verdicts.map(({ remaining }) => remaining)

    test('a reset key is as if never used, under every given limit', () =>
      onBench(async ({ store }) => {
        await store.consume(charges, 10)
        await store.reset(charges.slice(0, 4))
        const verdicts = await store.peek(charges, 0)
        for (let i = 0; i < 4; i++) expectSameVerdict(verdicts[i], freshVerdict(policy[i]))
        expect(verdicts[4].remaining).toBe(4)
        await store.reset(charges)
        expectSameVerdicts(await store.peek(charges, 0), policy.map(freshVerdict))
      }))

    test('to reset or refund an unused key does nothing', () =>
      onBench(async ({ store }) => {
        await store.reset(charges)
        await store.refund(charges, 5)
        expectSameVerdicts(await store.peek(charges, 0), policy.map(freshVerdict))
      }))

    test('a refund reaches every limit of a decision', () =>
      onBench(async ({ store }) => {
        await store.consume(charges, 7)
        await store.refund(charges, 4)
        expect(left(await store.peek(charges, 0))).toEqual([7, 8, 9, 10, 11])
        await store.refund(charges, 0)
        expect(left(await store.peek(charges, 0))).toEqual([7, 8, 9, 10, 11])
        await store.refund(charges, 1000)
        expect(left(await store.peek(charges, 0))).toEqual([10, 11, 12, 13, 14])
      }))

    test('a refund gives back the oldest first, so that no window ever holds more than the quota', () =>
      onBench(async given => {
        const subject = new Subject(given, 'k', parseLimit({ quota: 6, window: 1000 }))
        await subject.live([
          { afterMs: 0, cost: 2 },
          { afterMs: 100, cost: 2 },
          { afterMs: 100, cost: 2 },
        ])
        await subject.refund(3)
        expect(await subject.peek(0)).toMatchObject({ remaining: 3, resetAfterMs: 1000 })
        expect((await subject.peek(4)).retryAfterMs).toBe(900)
        expect((await subject.peek(6)).retryAfterMs).toBe(1000)
        given.clock.advance(900)
        expect(await subject.peek(0)).toMatchObject({ remaining: 4, resetAfterMs: 100 })
      }))

    test('a running window continues, although all units were given back', () =>
      onBench(async given => {
        const subject = new Subject(given, 'k', parseLimit({ quota: 6, window: 1000, algorithm: 'fixed-window' }))
        await subject.consume(4)
        given.clock.advance(300)
        await subject.refund(4)
        expect(await subject.peek(0)).toMatchObject({ remaining: 6, resetAfterMs: 700 })
        await subject.consume(6)
        expect((await subject.consume(1)).retryAfterMs).toBe(700)
      }))

    test('an ended block applies again when the clock steps back by less than a second, although others were blocked since', () =>
      onBench(async given => {
        const limit = parseLimit({ quota: 4, window: 1000 })
        const block = async (key: string) => given.store.block([{ key, limit }], 100)
        await block('early')
        given.clock.advance(900)
        for (let i = 0; i < 20; i++) await block(`late ${i}`)
        given.clock.advance(-850)
        const [verdict] = await given.store.consume([{ key: 'early', limit }], 1)
        expect(verdict).toMatchObject({ allowed: false, blocked: true, retryAfterMs: 50 })
      }))

    test('denials of a key block it, and no other, after as many as the rule says', () =>
      onBench(async given => {
        const limit = parseLimit({ quota: 1, window: 1000 })
        const rule = new BlockRule(3, 60_000, 5000, 2, 80_000, 80_000)
        const strike = async (key: string, count: number) => {
          const { blockedMs, left } = await strikeIn(given.store, { key, limit }, { count, ageMs: 0 }, rule)
          return [blockedMs, left]
        }
        for (const key of ['a', 'b', 'c', 'd']) {
          expect(await strike(key, 2)).toEqual([0, 1])
          expect(await strike(key, 1)).toEqual([5000, 0])
          expect(await strike(`other ${key}`, 2)).toEqual([0, 1])
        }
        given.clock.advance(5000)
        expect(await strike('a', 5)).toEqual([10_000, 0])
      }))

    test('expired units are not given back', () =>
      onBench(async given => {
        const subject = new Subject(given, 'k', parseLimit({ quota: 4, window: 1000 }))
        await subject.consume(3)
        given.clock.advance(999)
        await subject.consume(1)
        given.clock.advance(1)
        await subject.refund(4)
        expectSameVerdict(await subject.peek(0), freshVerdict(subject.limit))
      }))
  })

  whole.describe('applies a changed quota at once, to earlier spending too', () => {
    const under = (quota: number, algorithm: Limit['algorithm']) =>
      parseLimit({ quota, window: '1m', algorithm, name: 'plan' })

    test.each(ALGORITHM_NAMES.filter(name => !hasBurst(name)))('%s: the units that were spent', algorithm =>
      onBench(async given => {
        const subject = new Subject(given, 'k', under(10, algorithm))
        await subject.consume(6)
        expect((await subject.under(under(20, algorithm)).peek(0)).remaining).toBe(14)
        expect((await subject.under(under(7, algorithm)).peek(0)).remaining).toBe(1)
        expect((await subject.under(under(6, algorithm)).consume(1)).allowed).toBe(false)
        const smaller = await subject.under(under(2, algorithm)).consume(1)
        expect(smaller).toMatchObject({ allowed: false, remaining: 0 })
        expect((await subject.consume(4)).allowed).toBe(true)
        expect((await subject.consume(1)).allowed).toBe(false)
      }),
    )

    test.each(ALGORITHM_NAMES.filter(hasBurst))('%s: the share that was spent', algorithm =>
      onBench(async given => {
        const subject = new Subject(given, 'k', under(10, algorithm))
        await subject.consume(6)
        expect((await subject.under(under(20, algorithm)).peek(0)).remaining).toBe(8)
        expect((await subject.under(under(5, algorithm)).peek(0)).remaining).toBe(2)
        expect((await subject.under(under(2, algorithm)).consume(1)).allowed).toBe(false)
        const hourly = parseLimit({ quota: 100, window: '1h', algorithm, name: 'plan' })
        expect((await subject.under(hourly).consume(10)).remaining).toBe(30)
        expect((await subject.consume(3)).allowed).toBe(true)
        expect((await subject.consume(1)).allowed).toBe(false)
      }),
    )
  })

  describe('counts unit by unit at the largest quota', () => {
    const most = 2 ** 53 - 1024

    test.each(['fixed-window', 'sliding-window'] as const)('%s', algorithm =>
      onBench(async given => {
        const limit = parseLimit({ quota: most, window: '1m', algorithm })
        const subject = new Subject(given, 'k', limit)
        const remaining: number[] = []
        for (let i = 0; i < 5; i++) remaining.push((await subject.consume(1)).remaining)
        expect(remaining).toEqual([most - 1, most - 2, most - 3, most - 4, most - 5])
        const endless = new Subject(given, 'k', parseLimit({ quota: 1, window: '3650000d', algorithm }))
        expect((await endless.consume(1)).resetAfterMs).toBe(315_360_000_000_000)
        // In one decision with others, and with another one it is refused for.
        const charges = [
          { key: 'k', limit },
          { key: 'other', limit: parseLimit({ quota: 2, window: '1m', name: 'small' }) },
        ]
        const [allowed] = await given.store.consume(charges, 2)
        expect(allowed.remaining).toBe(most - 7)
        const [refused] = await given.store.consume(charges, 1)
        expect(refused).toMatchObject({ remaining: most - 7 })
      }),
    )
  })

  describe('decides in one turn of the event loop', () => {
    test('as many as fit, in the order of the requests', () =>
      onBench(async ({ store }) => {
        const charges = [{ key: 'k', limit: parseLimit({ quota: 300, window: '1m' }) }]
        const verdicts = await Promise.all(Array.from({ length: 1000 }, () => store.consume(charges, 1)))
        expect(verdicts.map(([{ allowed }]) => allowed)).toEqual(Array.from({ length: 1000 }, (_, i) => i < 300))
        expect(verdicts.slice(0, 300).map(([{ remaining }]) => remaining)).toEqual(
          Array.from({ length: 300 }, (_, i) => 299 - i),
        )
      }))

    whole.test('a hundred limits for a hundred keys', () =>
      onBench(async ({ store }) => {
        const policy = parsePolicy(
          Array.from({ length: 100 }, (_, i) => ({ quota: i + 1, window: '1m', algorithm: ALGORITHM_NAMES[i % 5] })),
        )
        const verdicts = await Promise.all(
          Array.from({ length: 100 }, (_, k) =>
            store.consume(
              policy.map(limit => ({ key: `k${k}`, limit })),
              1,
            ),
          ),
        )
        const expected = Array.from({ length: 100 }, (_, i) => i)
        for (const answer of verdicts) expect(answer.map(({ remaining }) => remaining)).toEqual(expected)
      }),
    )
  })
}

/** Keys that would meet, or break something, if they were put together carelessly. */
export function hostileKeys(): string[] {
  const long = ['x', 'é', '\ud800', '\ud801', '\ufffd', '{', ':', '\0', '%', '😀'].flatMap(letter =>
    [99, 100, 101, 199, 200, 201, 202, 10_240].flatMap(length => [letter.repeat(length), `${letter.repeat(length)}y`]),
  )
  const short = [
    ...[
      '',
      ' ',
      '  ',
      '%',
      '%%',
      '%25',
      '%00',
      '\0',
      '\0\0',
      '0',
      '-0',
      'null',
      'undefined',
      '__proto__',
      'constructor',
    ],
    ...[
      'a',
      'A',
      'a ',
      ' a',
      'a:b',
      'a::b',
      ':a:b',
      'a:b:',
      'a%3ab',
      'a%3Ab',
      '#',
      '#a',
      '%23',
      '*',
      '?',
      '[a]',
      'a\\',
    ],
    ...['{a}', '{a', 'a}', '}a{', '{}', '{}a', '{a}{b}', '{a}b', 'a{b}', '%7ba%7d', '"', "'", '$1', '../a', '/', '//'],
    ...[
      '%u',
      '%ud800',
      '\ud800',
      '\ud801',
      '\udc00',
      '\udc00\ud800',
      '\ud83d\ude00',
      '\ud83d',
      '\ude00',
      '\ufffd',
      '\ufffd\ufffd',
    ],
    ...[
      'é',
      'e\u0301',
      '\ufb01',
      'fi',
      '\u03a9',
      '\u2126',
      '\u200b',
      '\u202e',
      '\ufeff',
      '\u007f',
      '\u0080',
      '\u0085',
      '\u2028',
    ],
    ...[
      '\n',
      '\r\n',
      '\t',
      '\x1b[31m',
      'user:42',
      'user:4',
      'user',
      '192.0.2.1',
      '2001:db8::1',
      '2001:db8:0:0:0:0:0:1',
    ],
  ]
  return [...new Set([...short, ...long])]
}
