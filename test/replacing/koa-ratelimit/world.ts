import Koa, { type Middleware } from 'koa'
import theirs from 'koa-ratelimit'
import ours, { type MiddlewareOptions } from '../../../src/replacing/koa-ratelimit/index.js'
import { wholeFor } from '../../support/everywhere.js'
import { get } from '../../support/get.js'
import { older } from '../../support/older.js'

type Make = (options: MiddlewareOptions) => Middleware
const VERSIONS = wholeFor(false).orFew<() => Koa>(
  [() => new Koa(), ...older('koa2', (Koa2: typeof Koa) => () => new Koa2())],
  1,
)

/** What a client sees, without the moments: those are looked at by themselves. */
export interface Answer {
  readonly status: number
  readonly text: string
  readonly headers: Record<string, string>
  readonly told: unknown
}

/** A service behind one or more middlewares; it tells what they left on the context, also of what they throw. */
export function serviceOf(create: () => Koa, ...middlewares: Middleware[]): (path?: string) => Promise<Answer> {
  const app = create()
  app.silent = true
  let told: unknown
  app.use(async (ctx, next) => {
    try {
      await next()
    } finally {
      told = ctx.state.rateLimit
    }
  })
  for (const middleware of middlewares) app.use(middleware)
  app.use(ctx => {
    ctx.body = 'done'
  })
  const callback = app.callback()
  return async (path = '/') => {
    const { status, text, headers } = await get(callback, {}, path)
    return { status, text, headers, told }
  }
}

/** An answer with the digits of its moments left out where ours differ on purpose. */
function withoutMoments({ status, text, headers, told }: Answer): unknown {
  const { date: _, 'retry-after': after, 'x-ratelimit-reset': reset, until, ...rest } = headers
  const { after: toldAfter, headers: toldHeaders, ...left } = (told ?? {}) as Record<string, object>
  const names = [typeof toldAfter, Object.keys(toldHeaders ?? {})]
  return { status, text, rest, after: after !== undefined, reset: (reset ?? until) !== undefined, told: [left, names] }
}

/** A scenario seen with theirs and with ours. */
export async function both(
  scenario: (make: Make, create: () => Koa) => Promise<Answer[]>,
): Promise<Array<[expected: unknown, seen: unknown]>> {
  const pairs: Array<[unknown, unknown]> = []
  for (const create of VERSIONS) {
    const expected = await scenario(theirs as Make, create)
    const seen = await scenario(ours, create)
    pairs.push([expected.map(withoutMoments), seen.map(withoutMoments)])
  }
  return pairs
}
