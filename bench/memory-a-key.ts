// What a key costs: bytes in the process, bytes in Redis, and bytes of Redis for each permit of a sliding window.
import type { Redis } from 'ioredis'
import { RedisServer } from '../test/support/redis-server.js'
import { type Contender, withProcess } from './contest/contest.js'
import { figure, single, type Table } from './contest/figures.js'
import { type Claim, progress, type Report, runAlone } from './contest/report.js'

const CONSTANT = ['fixed-window', 'token-bucket', 'leaky-bucket', 'sliding-counter']
const ALGORITHMS = [...CONSTANT, 'sliding-window']
const KEYS = 1_000_000
const REDIS_KEYS = 100_000
const PERMITS = 10_000

export async function memoryAKey(): Promise<Report> {
  const [inProcess, claims] = await measureProcess()
  const server = await RedisServer.start()
  try {
    const client = server.client()
    const inRedis = await measureRedis(server, client)
    const [permits, permitClaims] = await measurePermits(client)
    return {
      title: 'Memory',
      method:
        `In the process: \`heapUsed\` and \`external\` after ${figure(KEYS)} keys were asked for once, less before, garbage collected, the text of ` +
        'the key (an address, 32 bytes) included. In Redis: the growth of `used_memory` with the same number of clients, of names up to 12 characters, ' +
        'the text of the key included.',
      tables: [inProcess, inRedis, permits],
      claims: [...claims, ...permitClaims],
    }
  } finally {
    await server.stop()
  }
}

async function measureProcess(): Promise<[Table, Claim[]]> {
  const one = (name: string, contender: string, algorithm?: string): Contender => ({
    name,
    file: 'memory-a-key.mjs',
    setup: { contender, algorithm },
    nodeOptions: ['--expose-gc'],
  })
  const contenders = [
    ...ALGORITHMS.map(algorithm => one(`spillway ${algorithm}`, 'spillway', algorithm)),
    ...['express-rate-limit', 'rate-limiter-flexible', 'koa-ratelimit', 'bare Map of keys'].map(name =>
      one(name, name),
    ),
  ]
  const rows: string[][] = []
  const claims: Claim[] = []
  for (const contender of contenders) {
    progress(`memory in the process: ${contender.name}`)
    const bytes = await withProcess(contender, child => child.ask<number>('run', { keys: KEYS }))
    rows.push([contender.name, figure(bytes)])
    if (!CONSTANT.some(algorithm => contender.name === `spillway ${algorithm}`)) continue
    const text = `${contender.name}: a key in the process`
    claims.push({ text, bound: 'at most', target: 110, measured: single(bytes), unit: 'bytes' })
  }
  return [{ caption: `In the process, ${figure(KEYS)} keys`, head: ['contender', 'bytes a key'], rows }, claims]
}

async function measureRedis(server: RedisServer, client: Redis): Promise<Table> {
  const one = (name: string, contender: string, algorithm?: string): Contender => ({
    name,
    file: 'redis.mjs',
    setup: { contender, algorithm, port: server.port, inFlight: 512, keys: REDIS_KEYS },
  })
  const contenders = [
    ...ALGORITHMS.map(algorithm => one(`spillway ${algorithm}`, 'spillway', algorithm)),
    ...['rate-limiter-flexible', 'rate-limit-redis', 'bare INCR'].map(name => one(name, name)),
  ]
  const rows: string[][] = []
  for (const contender of contenders) {
    progress(`memory in Redis: ${contender.name}`)
    const bytes = await withProcess(contender, async child => {
      // Both times with the client connected and its scripts loaded: their memory is no key's.
      await child.ask('check')
      await client.flushall()
      const before = await usedMemory(client)
      await child.ask('fill')
      return ((await usedMemory(client)) - before) / REDIS_KEYS
    })
    rows.push([contender.name, figure(bytes)])
  }
  await client.flushall()
  return { caption: `In Redis, ${figure(REDIS_KEYS)} keys`, head: ['contender', 'bytes a key'], rows }
}

/** The log of one sliding window, under a clock of ours, so that permits fall where they shall. */
async function measurePermits(client: Redis): Promise<[Table, Claim[]]> {
  progress('memory in Redis: permits of a sliding window')
  const spread = await bytesOfLog(client, 1)
  const together = await bytesOfLog(client, 0)
  const each = spread / PERMITS
  return [
    {
      caption: `In Redis, one key of a sliding window with ${figure(PERMITS)} permits spent (MEMORY USAGE)`,
      head: ['permits', 'bytes', 'bytes a permit'],
      rows: [
        ['each in a millisecond of its own', figure(spread), figure(each)],
        ['all in one millisecond', figure(together), figure(together / PERMITS)],
      ],
    },
    [
      {
        text: `sliding-window in Redis: a permit, ${figure(PERMITS)} in distinct ms`,
        bound: 'at most',
        target: 12,
        measured: single(each),
        unit: 'bytes',
      },
      {
        text: `sliding-window in Redis: the key, ${figure(PERMITS)} permits in one ms`,
        bound: 'at most',
        target: 1024,
        measured: single(together),
        unit: 'bytes',
      },
    ],
  ]
}

async function bytesOfLog(client: Redis, msApart: number): Promise<number> {
  // Imported now, because before the build there is nothing to import.
  const { RateLimiter, RedisStore } = await import('../dist/index.mjs')
  const { ManualClock } = await import('../dist/testing.mjs')
  await client.flushall()
  const clock = new ManualClock(Date.now())
  const policy = { quota: PERMITS, window: '10m', algorithm: 'sliding-window' } as const
  const limiter = new RateLimiter({ policy, store: new RedisStore(client, { clock }), deadline: '10s' })
  for (let i = 0; i < PERMITS; i++) {
    const { allowed, source } = await limiter.consume('client')
    if (!allowed || source !== 'redis') throw new Error(`permit ${i} was not given by Redis`)
    clock.advance(msApart)
  }
  const [key] = await client.keys('*')
  return (await client.memory('USAGE', key, 'SAMPLES', 0)) as number
}

async function usedMemory(client: Redis): Promise<number> {
  return Number((await client.info('memory')).match(/^used_memory:(\d+)/m)![1])
}

await runAlone(import.meta, memoryAKey)
