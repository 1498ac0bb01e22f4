import { describe, expect, test } from '@jest/globals'
import { PolicyError } from '../../src/limiter/core/errors.js'
import { optionsOf, parsePolicy } from '../../src/limiter/core/limit.js'
import { countName } from '../../src/limiter/count-name.js'
import { MemoryStore } from '../../src/limiter/memory/memory-store.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { loadPolicy } from '../../src/operating/adaptive/load-policy.js'
import { ManualClock } from '../../src/testing.js'
import { START } from '../support/stories.js'
import { StubStore } from '../support/stub-store.js'

const countsOf = (policy: string, limiter?: string) => parsePolicy(policy).map(limit => countName({ limit, limiter }))

describe('two limits of one policy that would share a count', () => {
  const refused: Array<[policy: string, name: string | undefined, error: string]> = [
    [
      '10/1m; 20/1m',
      'api',
      'the limits "10-per-1m" and "20-per-1m" would share one count: without names they belong to "api", algorithm ' +
        'and window (a bucket not to its window). Give one a name, like { quota: 20, window: "1m", name: "burst" }',
    ],
    ['10/1s token-bucket; 100/1m token-bucket', 'api', '"10-per-1s" and "100-per-1m" would share one count'],
    ['10/1s token-bucket; 10/1m token-bucket', undefined, 'they belong to quota, algorithm and window'],
    ['10/1m; 10/1m', undefined, 'two limits are named "10-per-1m": give one a name of its own'],
    ['10/1m; 10/1m token-bucket', undefined, 'two limits are named "10-per-1m": give one a name of its own'],
  ]

  test.each(refused)('are refused: %s (limiter %s)', (policy, name, error) => {
    const make = () => new RateLimiter({ policy, ...(name !== undefined && { name }) })
    expect(make).toThrow(PolicyError)
    expect(make).toThrow(error)
  })

  test('are refused when a policy function returns them, and nothing is spent', async () => {
    let policy = '10/1m; 20/1m'
    const limiter = new RateLimiter({ policy: () => policy, name: 'api' })
    await expect(limiter.consume('k')).rejects.toThrow(PolicyError)
    policy = '10/1m'
    expect((await limiter.consume('k')).remaining).toBe(9)
  })

  test.each([
    ['10/1m; 20/1m', undefined],
    ['10/1m; 20/1m', 'default'],
    ['10/1m; 20/1m name=more', 'api'],
    ['10/1s token-bucket name=burst; 100/1m token-bucket', 'api'],
    ['10/1m; 10/1h', 'api'],
    ['10/1m; 20/1m fixed-window', 'api'],
    ['10/day calendar; 10/day calendar tz=Europe/Berlin name=berlin', 'api'],
  ])('are not: %s (limiter %s)', async (policy, name) => {
    const limiter = new RateLimiter({ policy, ...(name !== undefined && { name }) })
    await limiter.consume('k', 2)
    const { verdicts } = await limiter.peek('k', 0)
    expect(verdicts.map(({ limit, remaining }) => limit.quota - remaining)).toEqual([2, 2])
  })
})

describe('the text of a count', () => {
  test('has what it belongs to', () => {
    expect(countsOf('10/1m; 20/1m name=more; 10/1h token-bucket; 10/day calendar', 'api')).toEqual([
      'sw60000',
      'more@sw60000',
      'tb',
      'fw-day-utc',
    ])
    expect(countsOf('10/1m; 20/1m name=more; 10/1h token-bucket')).toEqual(['10/sw60000', 'more@sw60000', '10/tb'])
  })

  test('differs for names that look like it', () => {
    const odd = ['10/sw60000', 'a@sw60000', 'sw60000', '10', '@', 'a@']
    const counts = odd.flatMap(name =>
      [undefined, 'api'].map(limiter =>
        countName({ limit: parsePolicy({ quota: 10, window: '1m', name })[0], limiter }),
      ),
    )
    const all = [...new Set(counts), ...countsOf('10/1m'), ...countsOf('10/1m', 'api')]
    expect(new Set(all).size).toBe(odd.length + 2)
  })

  test('stays when a limit becomes options and a limit again', () => {
    const policy = parsePolicy('10/1m; 20/1m name=more; 10/1h token-bucket burst=3; 10/day calendar tz=Europe/Berlin')
    const again = parsePolicy(JSON.parse(JSON.stringify(policy.map(optionsOf))))
    expect(again).toEqual(policy)
    const texts = (limits: typeof policy) =>
      limits.flatMap(limit => [countName({ limit }), countName({ limit, limiter: 'api' })])
    expect(texts(again)).toEqual(texts(policy))
  })
})

describe('a limit without a name', () => {
  test.each([
    ['default', 20],
    ['api', 17],
  ])(
    'has its own count under a policy that follows a load, as if it were written so (limiter %s)',
    async (name, left) => {
      const store = new MemoryStore({ clock: new ManualClock(START) })
      const following = (policy: string) => loadPolicy(policy, { load: { level: 0, reason: 'none' } })
      const limiter = new RateLimiter({ policy: following('10/1m'), store, name })
      expect((await limiter.consume('k', 3)).limit.name).toBe('10-per-1m')
      expect((await new RateLimiter({ policy: '10/1m', store, name }).peek('k', 0)).remaining).toBe(7)
      expect((await new RateLimiter({ policy: following('20/1m'), store, name }).peek('k', 0)).remaining).toBe(left)
    },
  )

  test('does not share its count while the store fails, although its part of the quota is that of another', async () => {
    const store = new StubStore()
    store.answer = () => Promise.reject(new Error('gone'))
    const limiter = (policy: string) => new RateLimiter({ policy, store, localShare: 0.25, observer: {} })
    const [three, four] = [limiter('3/1m'), limiter('4/1m')]
    expect(await three.consume('k')).toMatchObject({ allowed: true, degraded: true, remaining: 0 })
    expect(await four.consume('k')).toMatchObject({ allowed: true, degraded: true, remaining: 0 })
    expect((await three.consume('k')).allowed).toBe(false)
  })
})
