import { describe, expect, test } from '@jest/globals'
import { errorsOf } from './compile.js'
import { SNIPPETS, type Snippet } from './pages.js'

const KOA_RATELIMIT = `import Koa from 'koa'
import ratelimit from 'spillway/koa-ratelimit'
const names: ratelimit.HeaderNameOptions = { remaining: 'A', reset: 'B', total: 'C' }
const options: ratelimit.MiddlewareOptions = {
  driver: 'memory', db: new Map<string, unknown>(), duration: 60000, max: 10, headers: names, disableHeader: false,
  id: (context: Koa.Context): string | false => context.get('x-user') || false, namespace: 'api', throw: true,
  errorMessage: 'slow down', whitelist: context => context.ip === '::1', blacklist: async (context: Koa.Context) => context.ip === '',
}
const middleware: Koa.Middleware = ratelimit(options)
new Koa().use(middleware).use(ratelimit({ driver: 'redis', db: redis }))
`

const RATE_LIMITER_FLEXIBLE = `import {
  BurstyRateLimiter, RateLimiterAbstract, RateLimiterCompatibleAbstract, RateLimiterMemory, RateLimiterQueue, RateLimiterQueueError, RateLimiterRedis,
  RateLimiterRes, RateLimiterStoreAbstract, RateLimiterUnion, RLWrapperBlackAndWhite,
} from 'PACKAGE'
import type { IRateLimiterMemoryExport, IRateLimiterRes, IRateLimiterRestoreDetailResponse, RateLimiterLike } from 'PACKAGE'
const memory = new RateLimiterMemory({ points: 5, duration: 1, execEvenly: true, execEvenlyMinDelayMs: 5, keyPrefix: 'm' })
const stored: RateLimiterStoreAbstract = new RateLimiterRedis({
  storeClient: redis, points: 5, duration: 1, blockDuration: 3, inMemoryBlockOnConsumed: 9, inMemoryBlockDuration: 2, insuranceLimiter: memory,
  rejectIfRedisNotReady: true, useRedisPackage: false, blockOnConsumed: 6, storeType: 'x', dbName: 'd', tableName: 't',
})
stored.deleteInMemoryBlockedAll()
stored.blockOnConsumed = 7
const white = new RLWrapperBlackAndWhite({ limiter: stored, blackList: ['a'], whiteList: [1, 2], isBlackListed: (key: string) => key === 'b', runActionAnyway: true })
white.isWhiteListed = (key: string) => key.length > 5
const likes: RateLimiterLike[] = [memory, stored, white]
const abstract: RateLimiterAbstract = memory
const ms: number = abstract.msDuration + abstract.msBlockDuration + abstract.execEvenlyMinDelayMs
export async function use(key: string | number): Promise<number> {
  const res: RateLimiterRes = await memory.consume(key, 2, { customDuration: 5 })
  const maybe: RateLimiterRes | null = await memory.get(key)
  const all: Record<string, RateLimiterRes> = await new RateLimiterUnion(...likes).consume(key, 1)
  const bursty = new BurstyRateLimiter(memory, white)
  const one: RateLimiterRes = await bursty.consume(key, 1, { attrs: { a: 1 } })
  const queue = new RateLimiterQueue(bursty, { maxQueueSize: 5 })
  const left: number = (await queue.removeTokens(1, key, 5)) + (await queue.getTokensRemaining(key))
  const dump: IRateLimiterMemoryExport = memory.dump()
  const detail: IRateLimiterRestoreDetailResponse | undefined = memory.restore(dump, true)
  const gone: boolean = await white.delete(key)
  const shape: IRateLimiterRes = res.toJSON()
  return ms + left + res.msBeforeNext + (maybe?.remainingPoints ?? 0) + Object.keys(all).length + one.consumedPoints + (detail?.expired.count ?? 0) + Number(gone) + (shape.msBeforeNext ?? 0)
}
export class Mine extends RateLimiterCompatibleAbstract {
  async consume(key: string | number, points?: number, options?: { [key: string]: any }): Promise<RateLimiterRes> {
    return new RateLimiterRes(points, Number(options?.ms), Number(key), true)
  }
}
export class Other extends RateLimiterAbstract {
  async penalty(key: string | number): Promise<RateLimiterRes> {
    return memory.penalty(this.parseKey(this.getKey(key)))
  }
}
export const error: Error = new RateLimiterQueueError('a', 'b')
`

const program = (page: string, code: string, line = 0): Snippet => ({ page, line, code, output: undefined })

// All in one compilation: most of its time goes into the types of Node and of the frameworks.
const PROGRAMS = [
  program('koa-ratelimit', KOA_RATELIMIT),
  program(
    'koa-ratelimit, required',
    KOA_RATELIMIT.replace(/import (ratelimit|Koa) from ('.*')/g, 'import $1 = require($2)'),
  ),
  program('koa-ratelimit, wrong', "import ratelimit from 'spillway/koa-ratelimit'\nratelimit({ driver: 'disk' })\n"),
  program('rate-limiter-flexible', RATE_LIMITER_FLEXIBLE.replaceAll('PACKAGE', 'rate-limiter-flexible')),
  program('ours instead', RATE_LIMITER_FLEXIBLE.replaceAll('PACKAGE', 'spillway/rate-limiter-flexible')),
  program(
    'rate-limiter-flexible, wrong',
    "import { RateLimiterMemory } from 'spillway/rate-limiter-flexible'\nnew RateLimiterMemory({ points: '5' })\n",
  ),
  program('docs/wrong.md', "import { RateLimiter } from 'spillway'\nnew RateLimiter({ policy: 5n })\n", 10),
]
const errors = errorsOf([...SNIPPETS, ...PROGRAMS])
const errorsIn = (page: string) => errors.filter(error => error.startsWith(`${page}:`)).sort()

test('every snippet compiles in strict TypeScript, as an ES module and as CommonJS', () => {
  expect(SNIPPETS.length).toBeGreaterThan(40)
  const others = PROGRAMS.flatMap(({ page }) => errorsIn(page))
  expect(errors.filter(error => !others.includes(error))).toEqual([])
})

test('a wrong snippet does not compile, and the error names its line on the page', () => {
  expect(errorsIn('docs/wrong.md')).toEqual([
    "docs/wrong.md:12 (CommonJS): Type 'bigint' is not assignable to type 'PolicyInput | PolicyFunction'.",
    "docs/wrong.md:12 (ES module): Type 'bigint' is not assignable to type 'PolicyInput | PolicyFunction'.",
  ])
})

describe('after the change of its import line', () => {
  test('a program typed against @types/koa-ratelimit compiles', () => {
    expect(errorsIn('koa-ratelimit')).toEqual([])
    expect(errorsIn('koa-ratelimit, required').filter(error => !error.includes('(ES module)'))).toEqual([])
    expect(errorsIn('koa-ratelimit, wrong')).toHaveLength(2)
  })

  test('a program typed against rate-limiter-flexible compiles', () => {
    expect(errorsIn('rate-limiter-flexible')).toEqual([])
    expect(errorsIn('ours instead')).toEqual([])
    expect(errorsIn('rate-limiter-flexible, wrong')).toHaveLength(2)
  })
})
