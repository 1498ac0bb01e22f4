// Decisions a second of the drop-ins for rate-limiter-flexible and koa-ratelimit, against these, in one process, in turns: in memory and on Redis,
// with 1 and 64 in flight. Half of the decisions are refused.
import { Redis } from 'ioredis'
import type { Context, Middleware } from 'koa'
import theirKoa from 'koa-ratelimit'
import * as theirs from 'rate-limiter-flexible'
import ourKoa from '../src/koa-ratelimit/index.js'
import * as ours from '../src/rate-limiter-flexible/index.js'
import { RedisServer } from '../test/support/redis-server.js'

type Decide = (key: string) => Promise<unknown>
type Peer = readonly [name: string, ours: Decide, theirs: Decide, redis: boolean]

const ROUNDS = 9
const KEYS = Array.from({ length: 1000 }, (_, i) => `key-${i}`)

const server = await RedisServer.start()
const [oursOn, theirsOn] = [0, 1].map(() => new Redis(server.url))

const limiter = (module: typeof theirs, storeClient?: Redis): Decide => {
  const options = { points: 50, duration: 3600 }
  const limiter = storeClient
    ? new module.RateLimiterRedis({ ...options, storeClient, keyPrefix: module === theirs ? 'theirs' : 'ours' })
    : new module.RateLimiterMemory(options)
  return key => limiter.consume(key).catch((refusal: unknown) => refusal)
}
const middleware = (make: (options: object) => Middleware, options: object): Decide => {
  const limit = make({ max: 50, duration: 3_600_000, id: (ctx: Context) => ctx.ip, ...options })
  const next = async () => {}
  return key => limit({ ip: key, set() {}, state: {} } as unknown as Parameters<Middleware>[0], next)
}

const peers: readonly Peer[] = [
  ['rate-limiter-flexible, memory', limiter(ours as unknown as typeof theirs), limiter(theirs), false],
  ['rate-limiter-flexible, Redis', limiter(ours as unknown as typeof theirs, oursOn), limiter(theirs, theirsOn), true],
  [
    'koa-ratelimit, memory',
    middleware(ourKoa, { driver: 'memory', db: new Map() }),
    middleware(theirKoa, { driver: 'memory', db: new Map() }),
    false,
  ],
  [
    'koa-ratelimit, Redis',
    middleware(ourKoa, { driver: 'redis', db: oursOn, namespace: 'our-koa' }),
    middleware(theirKoa, { driver: 'redis', db: theirsOn, namespace: 'their-koa' }),
    true,
  ],
]

async function perSecond(decide: Decide, count: number, inFlight: number): Promise<number> {
  let next = 0
  const worker = async () => {
    while (next < count) await decide(KEYS[next++ % KEYS.length])
  }
  const startedAt = performance.now()
  await Promise.all(Array.from({ length: inFlight }, worker))
  return (count / (performance.now() - startedAt)) * 1000
}

const median = (numbers: number[]) => numbers.sort((a, b) => a - b)[numbers.length >> 1]

console.log('| peer | in flight | drop-in/s | peer/s | drop-in ÷ peer |\n| --- | --- | --- | --- | --- |')
for (const [name, mine, other, redis] of peers) {
  for (const inFlight of [1, 64]) {
    const count = redis ? (inFlight === 1 ? 1500 : 6000) : 60_000
    const rates: [number[], number[], number[]] = [[], [], []]
    await perSecond(mine, count, inFlight)
    await perSecond(other, count, inFlight)
    for (let round = 0; round < ROUNDS; round++) {
      const order = round % 2 === 0 ? [mine, other] : [other, mine]
      const [first, second] = [await perSecond(order[0], count, inFlight), await perSecond(order[1], count, inFlight)]
      const [a, b] = round % 2 === 0 ? [first, second] : [second, first]
      rates[0].push(a)
      rates[1].push(b)
      rates[2].push(a / b)
    }
    const [a, b, ratio] = rates.map(median)
    console.log(`| ${name} | ${inFlight} | ${Math.round(a)} | ${Math.round(b)} | ${ratio.toFixed(2)} |`)
  }
}
for (const client of [oursOn, theirsOn]) client.disconnect()
await server.stop()
