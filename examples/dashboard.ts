// A dashboard with live data: a service with live limits, a shared rate, a semaphore and a queue, and the traffic of
// its clients, one of which tries passwords. All in one process. REDIS_URL: by default it starts a redis-server of its
// own, which keeps nothing. PORT: by default a free one. Ends with Ctrl-C.
//
//   node --import tsx examples/dashboard.ts
import { spawn } from 'node:child_process'
import { once, setMaxListeners } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import express from 'express'
import { Redis } from 'ioredis'
import { DelayQueue, RateLimiter, RedisStore, Semaphore, SharedRateLimiter } from 'spillway'
import { dashboard, reporter } from 'spillway/dashboard'
import { rateLimit } from 'spillway/express'
import { LivePolicies } from 'spillway/live'

const prefix = 'example-dashboard'
const url = process.env.REDIS_URL ?? (await ownRedis())
const redis = new Redis(url, { maxRetriesPerRequest: 20 })
redis.on('error', () => {})
await redis.ping().catch(() => {
  console.error(`No Redis at ${url}: start one, or set REDIS_URL`)
  process.exit(1)
})

// Every process of a service needs a reporter, passed to everything that limits.
const observer = reporter({
  client: redis,
  prefix,
  service: 'shop',
  version: '2.4.0',
  keyNames: { login: 'per address', api: 'per user' },
})
const live = new LivePolicies(redis, { prefix, defaults: { login: '5/15m', api: '600/1m' } })
const store = new RedisStore(redis, { prefix })
const login = new RateLimiter({ name: 'login', store, observer, policy: live.policy('login', (key: string) => key) })
const search = new RateLimiter({ name: 'search', store, observer, policy: '20/1s token-bucket burst=40' })
const reports = new Semaphore(redis, 'reports', { prefix, observer, permits: 6 })
const partner = new SharedRateLimiter(redis, 'partner-api', { prefix, observer })
await partner.setRate({ rate: 10, interval: '1s' })
const webhooks = new DelayQueue<{ to: string }>(redis, 'webhooks', { prefix, observer, maxAttempts: 1 })

const app = express()
// Mounted before the limit, so that it works while other requests are refused. Access: your own check of the session.
app.use('/limits', dashboard({ client: redis, prefix, live, authorize: () => ({ access: 'write', user: 'you' }) }))
app.use(rateLimit({ name: 'api', store, observer, policy: live.policy('api'), key: req => req.get('x-user') }))
app.get('/', (_req, res) => void res.send('hello\n'))
const server = app.listen(Number(process.env.PORT ?? 0), '127.0.0.1')
await once(server, 'listening')
const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

// From here on: generated traffic.
const ended = new AbortController()
const { signal } = ended
setMaxListeners(50, signal)
const goesOn = () => !signal.aborted
const random = (below: number) => Math.floor(Math.random() * below)
const pause = (ms: number) => sleep(ms, undefined, { signal }).catch(() => {})

async function customers(): Promise<void> {
  for (; goesOn(); await pause(40)) {
    const answer = await fetch(address, { headers: { 'x-user': `user:${random(40)}` }, signal }).catch(() => undefined)
    await answer?.text().catch(() => {})
    await search.consume(`user:${random(40)}`)
    await login.consume(`198.51.${random(250)}.${random(250)}`)
  }
}

/** A client tries passwords during two of every three minutes. */
async function attacker(): Promise<void> {
  for (; goesOn(); await pause(60)) if ((Date.now() / 60_000) % 3 < 2) await login.consume('203.0.113.9')
}

async function worker(): Promise<void> {
  while (goesOn()) {
    await partner.acquire(1, { signal }).catch(() => {})
    await reports.use(() => pause(500 + random(4000)), { signal }).catch(() => {})
  }
}

async function orders(): Promise<void> {
  for (; goesOn(); await pause(1500)) {
    const to = random(20) === 0 ? 'gone.example' : `customer-${random(50)}.example`
    // It rejects while Redis does not answer: this service then goes on without the message.
    await webhooks.push({ to }, { delay: 1000 + random(20_000) }).catch(() => {})
  }
}

const deliveries = webhooks.consume(async ({ payload }) => {
  if (payload.to === 'gone.example') throw new Error('getaddrinfo ENOTFOUND gone.example')
  await pause(random(50))
})
const traffic = [customers(), attacker(), orders(), ...Array.from({ length: 9 }, worker)]

console.log(`The dashboard of a service with traffic: ${address}/limits/`)

async function end(): Promise<void> {
  ended.abort(new Error('the example ends'))
  server.close()
  server.closeAllConnections()
  await Promise.allSettled([...traffic, deliveries.close()])
  await Promise.all([observer.close(), live.close(), reports.close(), partner.close(), webhooks.close()])
  redis.disconnect()
}
for (const sign of ['SIGINT', 'SIGTERM'] as const) process.once(sign, () => void end())

/** Starts a Redis on a free port, which ends with this process; resolves to its URL. */
async function ownRedis(): Promise<string> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  const server = spawn(
    'redis-server',
    ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--dir', tmpdir()],
    {
      stdio: 'ignore',
    },
  )
  server.once('error', () => {
    console.error('This needs redis-server: install it, like `apt-get install redis-server`, or set REDIS_URL')
    process.exit(1)
  })
  server.unref()
  process.once('exit', () => server.kill('SIGKILL'))
  return `redis://127.0.0.1:${port}`
}
