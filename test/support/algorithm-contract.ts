import { describe, expect, test } from '@jest/globals'
import { type AlgorithmName, parseLimit } from '../../src/limiter/core/limit.js'
import { ALL_CASES } from './cases.js'
import { Subject } from './scenario.js'
import { benchesOf, type StoreMaker } from './store-benches.js'
import { START } from './stories.js'
import { expectSameVerdict, freshVerdict } from './verdicts.js'

/** What every store promises under one algorithm. */
export function describeAlgorithm(algorithm: AlgorithmName, maker: StoreMaker): void {
  const onBench = benchesOf(maker)

  describe(algorithm, () => {
    test('the first request leaves quota − cost, whatever the quota, the window and the year', async () => {
      const quotas = Array.from({ length: 1000 }, (_, i) => i + 1).filter(quota => ALL_CASES || quota % 37 === 1)
      let round = 0
      for (const year of [2026, 2035, 2048]) {
        await onBench(
          async ({ store, clock }) => {
            for (const window of ['1s', '1m', '1h', '1d']) {
              clock.advance(12_345)
              const limits = quotas.map(quota => parseLimit({ quota, window, algorithm, name: `${quota}/${window}` }))
              const costs = limits.map(({ quota }, i) => [1, Math.ceil((quota * 7) / 19), quota][(i + round) % 3])
              round++
              const verdicts = await Promise.all(
                limits.map((limit, i) => store.consume([{ key: 'k', limit }], costs[i])),
              )
              const left = verdicts.map(([verdict]) => verdict.remaining)
              expect(left).toEqual(limits.map(({ quota }, i) => quota - costs[i]))
            }
          },
          Date.UTC(year, 6, 14, 11, 22, 33, 444),
        )
      }
    }, 60_000)

    test('a quota of 0 refuses every cost except 0, before and after anything was spent', () =>
      onBench(async given => {
        const limit = parseLimit({ quota: 5, window: '1s', algorithm, name: 'x' })
        const none = parseLimit({ quota: 0, window: '1s', algorithm, name: 'x' })
        const subject = new Subject(given, 'k', limit)
        await subject.consume(2)
        const verdict = await subject.under(none).consume(1)
        expect(verdict).toMatchObject({ allowed: false, remaining: 0, retryAfterMs: Number.POSITIVE_INFINITY })
        expect(await subject.under(none).peek(0)).toMatchObject({ allowed: true, remaining: 0, retryAfterMs: 0 })
        expect((await subject.peek(0)).remaining).toBe(3)
        await subject.under(none).refund(1)
        expect((await subject.peek(0)).remaining).toBe(4)
      }))

    test('a cost beyond all bounds is refused for ever and changes nothing', () =>
      onBench(async given => {
        const subject = new Subject(given, 'k', parseLimit({ quota: 5, window: '1s', algorithm }))
        const verdict = await subject.consume(Number.MAX_SAFE_INTEGER)
        expectSameVerdict(verdict, {
          ...freshVerdict(subject.limit),
          allowed: false,
          retryAfterMs: Number.POSITIVE_INFINITY,
        })
        expect((await subject.consume(5)).allowed).toBe(true)
      }))

    test('a fraction of a ms does not count', () =>
      onBench(async given => {
        const subject = new Subject(given, 'k', parseLimit({ quota: 1, window: 10, algorithm }))
        given.clock.set(START + 0.75)
        await subject.consume(1)
        given.clock.set(START + 9.999)
        expect(await subject.peek(1)).toMatchObject({
          allowed: false,
          retryAfterMs: algorithm === 'sliding-counter' ? 11 : 1,
        })
        given.clock.set(START + 20.001)
        expect((await subject.peek(1)).allowed).toBe(true)
      }))
  })
}
