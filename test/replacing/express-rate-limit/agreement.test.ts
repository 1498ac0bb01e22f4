import { EventEmitter } from 'node:events'
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals'
import type { Request, RequestHandler, Response } from 'express'
import type { Options, RateLimitRequestHandler } from '../../../src/replacing/express-rate-limit/index.js'
import type { Random } from '../../support/random.js'
import { forRandom } from '../../support/run.js'
import { type Module, OURS, START, THEIRS, World } from './world.js'

// Random options, requests and ends of responses: what the drop-in does is what express-rate-limit does.

const fails = () => {
  throw new Error('a fault of the service')
}
const rejects = async () => fails()
/** Answers by itself. */
const end = (_: Request, res: Response) => void res.end()

/** Values of options; a store is made for each limiter, by its kind. */
const OPTIONS: Readonly<Record<string, readonly unknown[]>> = {
  limit: [1, 2, 3, 0, 2.5, Number.POSITIVE_INFINITY, () => 2, async () => 1, fails],
  max: [1, 2],
  windowMs: [1000, 1500, 60_000, 90_000, 3_600_000, 7_200_000, 172_800_000],
  message: ['slow down', { error: 'slow down' }, () => 'slow', async () => 'slower', end, fails],
  statusCode: [420, 503],
  legacyHeaders: [true, false],
  headers: [false],
  standardHeaders: [true, 'draft-6', 'draft-7', 'draft-8', 'draft-8', 'draft-8', 'draft-5'],
  identifier: ['login', (req: Request) => `for ${req.ip}`, async () => 'later', fails],
  retryAfter: [7, () => 8, async () => 9, fails],
  requestPropertyName: ['other', 'rateLimit'],
  skipFailedRequests: [true, true, false],
  skipSuccessfulRequests: [true, true, false],
  requestWasSuccessful: [(_: Request, res: Response) => res.statusCode === 404, async () => true, fails, rejects],
  keyGenerator: [() => 'one', async (req: Request) => `user of ${req.ip}`, fails, rejects],
  ipv6Subnet: [64, 48, false, () => 56, async () => 40, 20],
  handler: [
    (_: Request, res: Response) => res.status(418).send('tea'),
    (...[, , next]: unknown[]) => go(next),
    fails,
    rejects,
  ],
  skip: [() => false, (req: Request) => req.get('x-skip'), async (req: Request) => req.get('x-skip'), fails, rejects],
  passOnStoreError: [true, false],
  store: ['promises', 'at once', 'no reset', 'no get', 'failing', 'callbacks', null],
  validate: [false, { ip: false }, { default: false, limit: true }],
}

const go = (next: unknown) => (next as () => void)()

interface Step {
  readonly kind: 'request' | 'pause' | 'reset' | 'get'
  readonly ms: number
  readonly key: string
  readonly ip: string | undefined
  readonly headers: Record<string, string>
  readonly trust: boolean | number
  readonly status: number
  readonly end: 'finish' | 'close' | 'error' | 'late' | 'cut'
  readonly isBegun: boolean
}

/** Two of the same network of 56 bits, and one of the next. */
const IPV6 = ['2001:db8:1:100::1', '2001:DB8:1:1FF::2', '2001:db8:1:200::1']
const IPS = ['192.0.2.1', '192.0.2.1', '192.0.2.2', '2001:db8::1', '::ffff:192.0.2.2', 'nowhere', ...IPV6]

const stepOf = (random: Random): Step => ({
  kind: random.pick(['request', 'request', 'request', 'request', 'request', 'pause', 'reset', 'get']),
  ms: random.pick([1, 999, 1000, 60_000, 7_200_000]),
  key: random.pick(['192.0.2.1', 'one', '2001:db8::/56']),
  ip: random.pick(IPS),
  headers: random.pick<Step['headers']>([{}, {}, { 'x-skip': 'yes' }, { 'x-forwarded-for': '192.0.2.9' }]),
  trust: random.pick([1, 1, true, false]),
  status: random.pick([200, 404, 500, 302, 399, 400]),
  end: random.pick(['finish', 'finish', 'close', 'error', 'late', 'cut']),
  isBegun: random.integer(0, 19) === 0,
})

/** A store that writes down what it is asked. */
function storeOf(kind: unknown, seen: unknown[]): unknown {
  const hits = new Map<string, number>()
  let asked = 0
  const increment = (key: string) => {
    seen.push(['increment', key])
    if (kind === 'failing' && ++asked % 2 === 0) fails()
    hits.set(key, (hits.get(key) ?? 0) + 1)
    return { totalHits: hits.get(key)!, resetTime: kind === 'no reset' ? undefined : new Date(START + 2000) }
  }
  const decrement = async (key: string) => {
    seen.push(['decrement', key])
    hits.set(key, (hits.get(key) ?? 0) - 1)
    if (kind === 'failing') fails()
  }
  const resetKey = async (key: string) => void hits.delete(key)
  if (kind === 'callbacks') {
    const incr = (key: string, tell: (error: undefined, totalHits: number, resetTime?: Date) => void) => {
      const { totalHits, resetTime } = increment(key)
      tell(undefined, totalHits, resetTime)
    }
    return { incr, decrement, resetKey }
  }
  const get = async (key: string) => (hits.has(key) ? { totalHits: hits.get(key), resetTime: undefined } : undefined)
  const own = { increment: kind === 'at once' ? increment : async (key: string) => increment(key), decrement, resetKey }
  return kind === 'no get' ? own : { ...own, get }
}

/** As much of a response as a limiter looks at. */
class Answer extends EventEmitter {
  headersSent = false
  writableEnded = false
  statusCode = 200
  readonly fields: Record<string, unknown> = {}
  body: unknown

  setHeader(name: string, value: unknown): void {
    // As Node does.
    if (this.headersSent) throw new Error('headers after they are sent')
    if (name !== 'Date') this.fields[name.toLowerCase()] = value
  }
  getHeader = (name: string) => this.fields[name.toLowerCase()]
  append(name: string, value: unknown): void {
    const before = this.getHeader(name)
    this.setHeader(name, before === undefined ? value : [before, value].flat())
  }
  status(code: number): this {
    this.statusCode = code
    return this
  }
  send(body: unknown): void {
    this.body = body
    this.end()
  }
  end(): void {
    this.headersSent = true
    this.writableEnded = true
    this.emit('finish')
    this.emit('close')
  }
}

/** Errors of the service are passed on as they are; what is no function, or no subnet, is told in other words. */
const tell = (error: unknown) => (String(error).includes('service') ? String(error) : 'an error')

async function ask(limiters: readonly RequestHandler[], step: Step, world: World): Promise<unknown> {
  const { ip, headers, trust, status, end, isBegun } = step
  const get = (name: string) => headers[name]
  const req: Record<string, unknown> = { ip, headers, get, app: { get: () => trust }, socket: {} }
  const res = new Answer()
  res.on('error', () => {})
  res.headersSent = isBegun
  const passed: unknown[] = []
  for (const limiter of limiters) {
    const before = passed.length
    await limiter(req as never, res as never, (error?: unknown) =>
      passed.push(error === undefined ? 'on' : tell(error)),
    )
    if (passed.length === before || passed.at(-1) !== 'on') break
  }
  // A limiter that has refused has ended it.
  if (!res.writableEnded) {
    if (end === 'late') world.advance(70_000)
    if (end === 'error') res.emit('error', new Error('broken'))
    // Cut off before its last byte was out.
    if (end === 'cut') res.writableEnded = true
    if (end === 'close' || end === 'cut') res.emit('close')
    else res.status(status).end()
  }
  await world.settle()
  const { fields, statusCode, body } = res
  const infos = [req.rateLimit, req.other].map(info => info && [info, (info as { current: number }).current])
  return { passed, statusCode, body, fields, infos }
}

/** What is seen of all that a limiter does. */
async function played(
  module: Module,
  all: readonly Record<string, unknown>[],
  steps: readonly Step[],
): Promise<unknown> {
  jest.setSystemTime(START)
  const world = new World(module, () => fails())
  const seen: unknown[] = []
  let limiters: RateLimitRequestHandler[]
  try {
    limiters = all.map(({ store, ...options }) => {
      const own = typeof store === 'string' ? storeOf(store, seen) : store
      return world.limiter({ ...options, store: own } as Partial<Options>)
    })
  } catch (error) {
    return (error as Error).name
  }
  for (const step of steps) {
    if (step.kind === 'pause') world.advance(step.ms)
    else if (step.kind === 'request') seen.push(await ask(limiters, step, world))
    else if (step.kind === 'reset') await limiters[0].resetKey(step.key)
    // Theirs is the object that counts on.
    else seen.push(JSON.stringify(await (async () => limiters[0].getKey(step.key))().catch(String)))
  }
  // Theirs asks twice, of a response that has failed as well as ended, and for each of the two options.
  const logged = world.logged.filter(([, , text]) => !String(text).includes('requestWasSuccessful'))
  return JSON.parse(JSON.stringify({ seen, logged }))
}

beforeEach(() => void jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask', 'performance'] }))
afterEach(() => void jest.useRealTimers())

async function sameOnBoth(limiters: readonly Record<string, unknown>[], steps: readonly Step[]): Promise<void> {
  const expected = await played(THEIRS, limiters, steps)
  expect([limiters, await played(OURS, limiters, steps)]).toEqual([limiters, expected])
}

test('whatever the options, the requests and their ends', async () => {
  await forRandom(1500, async random => {
    const optionsOf = () => {
      const chosen = Object.entries(OPTIONS).filter(() => random.integer(0, 9) < 3)
      return Object.fromEntries(chosen.map(([name, values]) => [name, random.pick(values)]))
    }
    const limiters = random.integer(0, 3) === 0 ? [optionsOf(), optionsOf()] : [optionsOf()]
    await sameOnBoth(
      limiters,
      Array.from({ length: 10 }, () => stepOf(random)),
    )
  })
}, 60_000)

/** Values that plain JavaScript lets through. */
const ODD: readonly unknown[] = [
  '3',
  '2.5',
  ' 3 ',
  'three',
  '',
  2.5,
  -1,
  0,
  129,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  null,
  true,
  false,
  { valueOf: () => 2 },
  Object('2'),
  [2],
  {},
]

const NO_ODDITY = ['windowMs', 'store']

test.each(Object.keys(OPTIONS).filter(option => !NO_ODDITY.includes(option)))(
  'an odd value acts as in express-rate-limit: %s',
  async option => {
    const request: Step = {
      ...{ kind: 'request', ms: 0, key: '', headers: {}, trust: 1, status: 200, end: 'finish', isBegun: false },
      ip: option === 'ipv6Subnet' ? '2001:db8::1' : '192.0.2.1',
    }
    const base = {
      limit: 1,
      standardHeaders: option === 'identifier' ? 'draft-8' : true,
      skipFailedRequests: option === 'requestWasSuccessful',
    }
    for (const value of ODD) {
      const isLimit = option === 'limit' || option === 'max'
      for (const given of isLimit ? [value, () => value, async () => value] : [value]) {
        const options = option === 'max' ? { max: given } : { ...base, [option]: given }
        await sameOnBoth([options], [request, request, request, request])
      }
    }
  },
)
