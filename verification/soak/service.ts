import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { writeHeapSnapshot } from 'node:v8'
import express from 'express'
import { Redis } from 'ioredis'
import { concurrencyLimit, rateLimit } from '../../src/http/adapters/express.js'
import { RedisStore } from '../../src/index.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { dashboard, reporter } from '../../src/operating/dashboard/index.js'
import { LivePolicies } from '../../src/operating/live/index.js'
import { DelayQueue } from '../../src/waiting/queue/delay-queue.js'
import { SharedRateLimiter } from '../../src/waiting/rate/shared-rate-limiter.js'
import { Semaphore } from '../../src/waiting/semaphore/semaphore.js'

// A service that uses all of the package, with its own traffic, at a pace that a busy machine keeps too.

/** What the service says of a stretch of time. */
export interface Sample {
  /** Of decisions over Redis, ms. */
  readonly p50Ms: number
  readonly p99Ms: number
  readonly decisions: number
  /** Those that Redis did not make: while its connections are cut. */
  readonly elsewhere: number
  /** With the code that the engine compiles, which is no sign of a leak: see `objectBytes`. */
  readonly heapBytes: number
  readonly handles: number
  readonly loopDelayMs: number
  /** What may not happen: the message of the first error that is none of the faults made on purpose. */
  readonly failure?: string
}

const url = process.argv[2]
const redis = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 50 })
redis.on('error', () => {})
process.on('warning', () => {})
const observer = reporter({ client: redis, service: 'soak' })
const live = new LivePolicies(redis, { defaults: { api: '600/1m', keys: '5/10s' }, observer })
const store = new RedisStore(redis)
const leased = new RedisStore(redis, { prefix: 'leased', leases: true })
const common = { observer, store } as const
const limiters = [
  new RateLimiter({ ...common, name: 'fixed', policy: '20/1s fixed-window' }),
  new RateLimiter({ ...common, name: 'sliding', policy: '20/2s; 100/10s' }),
  new RateLimiter({ ...common, name: 'bucket', policy: '10/1s token-bucket burst=20' }),
  new RateLimiter({ ...common, name: 'live', policy: live.policy('keys', (key: string) => key) }),
  new RateLimiter({ observer, store: leased, name: 'leased', policy: '1000/1s' }),
]
const line = new RateLimiter({ ...common, name: 'line', policy: '50/1s' })
const semaphore = new Semaphore(redis, 'places', { permits: 3, observer })
const rate = new SharedRateLimiter(redis, 'partner', { observer })
const queue = new DelayQueue<number>(redis, 'mails', { observer, visibility: '5s' })

let failure: string | undefined
const failed = (error: unknown) => {
  failure ??= String((error as Error)?.stack ?? error)
}
process.on('uncaughtException', failed)
process.on('unhandledRejection', failed)

const app = express()
app.use('/limits', dashboard({ client: redis, live, authorize: () => ({ access: 'read', user: 'soak' }) }))
app.use(rateLimit({ ...common, name: 'api', policy: live.policy('api'), key: req => req.get('x-user') }))
app.use(concurrencyLimit({ permits: 5, queue: 10, wait: '1s', name: 'requests', observer }))
app.get('/', (_req, res) => void sleep(2).then(() => res.send('done')))
const server = app.listen(0, '127.0.0.1')
// Longer than it stands still while a snapshot is written: a request would take a connection that is about to be
// closed.
server.keepAliveTimeout = 120_000
await once(server, 'listening')
const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

const ended = new AbortController()
const { signal } = ended
let [latencies, elsewhere, keys, sought]: [number[], number, number, number] = [[], 0, 0, 0]
const loop = monitorEventLoopDelay()
loop.enable()

/** Again and again until the end, `pauseMs` after it was done. Errors that a lost Redis explains are expected here. */
async function repeat(pauseMs: number, work: () => unknown): Promise<void> {
  while (!signal.aborted) {
    try {
      await work()
    } catch (error) {
      const { name } = error as Error
      if (!['StoreError', 'TimeoutError', 'AbortError', 'LeaseLostError'].includes(name)) failed(error)
    }
    await sleep(pauseMs, undefined, { signal }).catch(() => {})
  }
}

async function decide(): Promise<void> {
  // Some keys come again and again, others once.
  const key = keys++ % 3 === 0 ? `once-${process.pid}-${keys}` : `often-${keys % 40}`
  const limiter = limiters[keys % limiters.length]
  const startedAt = performance.now()
  const decision = await limiter.consume(key, 1 + (keys % 2))
  latencies.push(performance.now() - startedAt)
  if (decision.degraded) elsewhere++
  if (keys % 7 === 0) await limiter.settle(decision, 1)
}

async function view(page: Record<string, string>): Promise<void> {
  const ask = Buffer.from(JSON.stringify(page)).toString('base64url')
  const answer = await fetch(`${address}/limits/view`, { headers: { 'x-spillway-request': ask }, signal })
  const text = await answer.text()
  if (![200, 503].includes(answer.status)) throw new Error(`the dashboard answers ${answer.status}: ${text}`)
}

/** Somebody looks at the dashboard, as its page asks each second. */
async function look(): Promise<void> {
  for (const page of ['limits', 'waiting', 'queues']) await view({ page })
}

/** Others look up keys: so many that the dashboard has shown the 5000 that it remembers before the heap counts. */
const lookUp = () => view({ page: 'keys', key: `sought-${sought++}` })

await rate.setRate({ rate: 30, interval: '1s' })
const consumer = queue.consume(() => sleep(1), { concurrency: 4 })
const work = [
  ...Array.from({ length: 8 }, () => repeat(20, decide)),
  ...Array.from({ length: 3 }, () =>
    repeat(20, async () => {
      const answer = await fetch(address, { headers: { 'x-user': `user-${keys % 20}` }, signal })
      await answer.text()
      if (![200, 429, 503].includes(answer.status)) throw new Error(`a request was answered ${answer.status}`)
    }),
  ),
  ...Array.from({ length: 4 }, () => repeat(5, () => line.acquire('shared', { timeout: '2s', signal }))),
  ...Array.from({ length: 5 }, () => repeat(5, () => semaphore.use(() => sleep(20), { timeout: '2s', signal }))),
  ...Array.from({ length: 3 }, () => repeat(5, () => rate.acquire(1, { timeout: '2s', signal }))),
  repeat(50, () => queue.push(keys, { delay: keys % 3000 })),
  repeat(10_000, () => live.set('keys', `${3 + (keys % 5)}/10s`, { by: 'soak' })),
  repeat(1000, look),
  repeat(50, lookUp),
]

process.on('message', async (order: 'sample' | 'end' | { readonly snapshot: string }) => {
  if (order === 'sample') return process.send?.(sample())
  if (order !== 'end') return process.send?.(writeHeapSnapshot(order.snapshot))
  ended.abort()
  await Promise.all(work)
  await consumer.close()
  await Promise.all([observer.close(), live.close(), semaphore.close(), rate.close(), queue.close()])
  await Promise.all([...limiters, line].map(limiter => limiter.close()))
  await Promise.all([store.close(), leased.close()])
  server.closeAllConnections()
  server.close()
  redis.disconnect()
  process.send?.('ended')
  process.disconnect()
})
process.send?.('ready')

function sample(): Sample {
  const sorted = latencies.sort((a, b) => a - b)
  const at = (share: number) => sorted[Math.floor(sorted.length * share)] ?? 0
  ;(globalThis as unknown as { gc: () => void }).gc()
  const taken: Sample = {
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    decisions: sorted.length,
    elsewhere,
    heapBytes: process.memoryUsage().heapUsed,
    handles: process.getActiveResourcesInfo().length,
    loopDelayMs: loop.percentile(99) / 1e6,
    failure,
  }
  ;[latencies, elsewhere] = [[], 0]
  loop.reset()
  return taken
}
