import { describe, expect, test } from '@jest/globals'
import { CostError } from '../../src/limiter/core/errors.js'
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
