import { describe, expect, test } from '@jest/globals'
import { CostError, PolicyError } from '../../src/limiter/core/errors.js'
import { type Budget, type PartnerLimits, politeFetch } from '../../src/outgoing/index.js'
import { testRedis } from '../support/test-redis.js'
import { warnings } from '../support/warnings.js'

const ORIGIN = 'https://api.example.com'
const redis = testRedis()

/** A fetch under these limits, and the URLs that it has sent. */
function politeWith(limits: PartnerLimits, more: Parameters<typeof politeFetch>[0] = {}) {
  const sent: string[] = []
  const fetch = (async input => {
    sent.push(String(input))
    return new Response('text')
  }) as typeof globalThis.fetch
  return { polite: politeFetch({ limits: { [ORIGIN]: limits }, maxWait: 0, fetch, ...more }), sent }
}

const tokens = (budget: Partial<Budget>): PartnerLimits => ({
  budgets: [{ rate: 10, interval: '10s', name: 'tokens', ...budget }],
})

/** The budget's units that are free. */
async function free(polite: typeof fetch, most: number): Promise<number> {
  for (let units = most; units > 0; units--) {
    const answer = await polite(`${ORIGIN}/?${units}`).catch(() => undefined)
    if (answer !== undefined) return units
  }
  return 0
}
const costOf = (url: URL) => Number(url.search.slice(1))
const turn = () => new Promise(resolve => setImmediate(resolve))

describe('what a call costs', () => {
  test.each([-1, Number.NaN, 1.5, 11, '1', null, undefined, Number.POSITIVE_INFINITY])(
    '%p is refused, and nothing is sent',
    async cost => {
      const { polite, sent } = politeWith(tokens({ cost: () => cost as number }))
      const call = polite(ORIGIN)
      await expect(call).rejects.toBeInstanceOf(CostError)
      const given = typeof cost === 'string' ? '"1"' : String(cost)
      await expect(call).rejects.toThrow(
        `${ORIGIN}: budget "tokens": cost ${given}: expected an integer from 0 to 10, like 1`,
      )
      expect(sent).toEqual([])
    },
  )

  test.each<[string, Budget['cost']]>([
    [
      'throws',
      () => {
        throw new RangeError('no tokens')
      },
    ],
    [
      'rejects',
      async () => {
        throw new RangeError('no tokens')
      },
    ],
  ])('is unknown if the function %s: the call rejects with that, and takes nothing', async (_, cost) => {
    let fails = true
    const limits = { concurrency: 1, ...tokens({ cost: (url, init) => (fails ? (cost?.(url, init) ?? 1) : 10) }) }
    const { polite, sent } = politeWith(limits)
    await expect(polite(ORIGIN)).rejects.toThrow(new RangeError('no tokens'))
    expect(sent).toEqual([])
    fails = false
    await polite(ORIGIN)
  })
})

describe('a `settle` that fails', () => {
  const warned = warnings()

  test.each<[string, Budget['settle'], string]>([
    [
      'throws',
      () => {
        throw new Error('no usage')
      },
      'no usage',
    ],
    [
      'rejects',
      async () => {
        throw new Error('no usage')
      },
      'no usage',
    ],
    ['rejects with no error', () => Promise.reject('gone'), 'gone'],
    ['gives a negative number', () => -1, '-1 is no integer ≥ 0'],
    ['gives no number', () => Number.NaN, 'NaN is no integer ≥ 0'],
  ])('%s: the estimate stays, one warning says so, and the response is there', async (_, settle, told) => {
    const { polite } = politeWith(tokens({ cost: costOf, settle }))
    expect(await (await polite(`${ORIGIN}/?2`)).text()).toBe('text')
    await polite(`${ORIGIN}/?3`)
    await turn()
    expect(await free(polite, 10)).toBe(5)
    await turn()
    expect(warned.codes).toEqual(['SPILLWAY_SETTLE'])
    expect(warned.texts[0]).toContain(`settle of budget "tokens" failed, so the estimated cost stays: ${told}`)
  })

  test.each(['here', 'over Redis'])('that does not end keeps no response waiting, %s', async where => {
    const client = where === 'here' ? undefined : redis.client()
    const { polite } = politeWith(tokens({ settle: () => new Promise(() => {}) }), client && { client })
    expect(await (await polite(ORIGIN)).text()).toBe('text')
  })
})

describe('options that are wrong are told with what was given, what was expected and an example', () => {
  const one: Budget = { rate: 1, interval: '1s' }
  const nine = Array.from({ length: 9 }, (_, i) => ({ ...one, name: `b${i}` }))
  test.each<[unknown, string]>([
    [{ budgets: nine }, "9 budgets: expected at most 8, like [{ rate: 200_000, interval: '1m', name: 'tokens' }]"],
    [{ budgets: nine.slice(1), rate: 5, interval: '1s' }, '9 budgets: expected at most 8'],
    [
      { budgets: [one, one] },
      "two budgets are called \"1-per-1s\": expected a `name` for each, like [{ rate: 200_000, interval: '1m', name: 'tokens' }]",
    ],
    [{ budgets: [{ ...one, name: '5-per-1s' }], rate: 5, interval: '1s' }, 'two budgets are called "5-per-1s"'],
    [
      { budgets: one },
      "budgets an object { rate, interval }: expected a list, like [{ rate: 200_000, interval: '1m', name: 'tokens' }]",
    ],
    [{ budgets: [5] }, "budgets[0]: given 5, expected options like { rate: 200_000, interval: '1m', name: 'tokens' }"],
    [{ budgets: [undefined] }, 'budgets[0]: given undefined, expected options like {'],
    ...[0, Number.NaN, -1, Number.POSITIVE_INFINITY, 1.5, '1', undefined].map((rate): [unknown, string] => [
      { budgets: [{ ...one, rate }] },
      `budgets[0]: rate ${typeof rate === 'string' ? '"1"' : rate}: expected an integer ≥ 1, like 100`,
    ]),
    [{ budgets: [{ rate: 1 }] }, "budgets[0]: interval undefined: expected a duration, like '1s'"],
    [{ budgets: [{ ...one, interval: '1' }] }, 'budgets[0]: interval: duration "1"'],
    [{ budgets: [{ ...one, interval: -5 }] }, 'budgets[0]: interval: duration -5'],
    [{ budgets: [{ ...one, interval: 0 }] }, 'budgets[0]: interval: duration 0'],
    [
      { budgets: [{ ...one, interval: '4000d' }] },
      'budgets[0]: interval "4000d": expected at most ten years, like \'1h\'',
    ],
    [{ budgets: [{ ...one, window: '1s' }] }, 'budgets[0]: unknown option "window"'],
    [{ budgets: [{ ...one, costs: () => 1 }] }, 'budgets[0]: unknown option "costs": did you mean cost?'],
    [
      { budgets: [{ ...one, cost: 5 }] },
      'budgets[0]: cost 5: expected a function, like async (url, init) => countTokens(init.body)',
    ],
    [
      { budgets: [{ ...one, settle: 'x-tokens' }] },
      'budgets[0]: settle "x-tokens": expected a function, like response => Number(response.headers.get(\'x-tokens\'))',
    ],
    [{ budgets: [{ ...one, name: '' }] }, 'budgets[0]: name ""'],
    [{ budget: [one] }, 'unknown option "budget": did you mean budgets?'],
  ])('%j', (limits, told) => {
    const build = () => politeFetch({ limits: { [ORIGIN]: limits as PartnerLimits } })
    expect(build).toThrow(PolicyError)
    expect(build).toThrow(`politeFetch: limits["${ORIGIN}"]: ${told}`)
  })

  test.each([9, -9, 1.5, Number.NaN, '1', null])('a priority of %p', async priority => {
    const { polite, sent } = politeWith(tokens({}), { priority: () => priority as number })
    const call = polite(ORIGIN)
    await expect(call).rejects.toBeInstanceOf(PolicyError)
    const given = typeof priority === 'string' ? '"1"' : priority
    await expect(call).rejects.toThrow(
      `politeFetch: priority returned ${given}: expected an integer from -8 to 8, like 1`,
    )
    expect(sent).toEqual([])
  })
})
