// One process of a run: uses everything at once over its own client.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import express from 'express'
import { rateLimit } from '../../src/http/adapters/express.js'
import type { Decision } from '../../src/limiter/core/decision.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { LivePolicies } from '../../src/operating/live/live-policies.js'
import { RedisStore } from '../../src/redis/store/redis-store.js'
import { DelayQueue } from '../../src/waiting/queue/delay-queue.js'
import { SharedRateLimiter } from '../../src/waiting/rate/shared-rate-limiter.js'
import { Semaphore } from '../../src/waiting/semaphore/semaphore.js'
import { connected } from './clients.js'
import type { Decided, Subject } from './history.js'
import { type Begun, forever, ms, options, random, recorded, watching } from './recording.js'
import { now, policyOf, RUN_SUBJECTS } from './subjects.js'

/** Nobody waits longer until the queue is empty. */
const EMPTY_MS = 20_000

const SOURCES: Readonly<Record<string, Decided['source']>> = { redis: 'store', 'deny-cache': 'memory' }
const facts = ({ allowed, source, remaining, retryAfterMs }: Decision) => {
  const told = SOURCES[source] ?? (source as Decided['source'])
  return { allowed, source: told, remaining, retryAfterMs }
}

const client = await connected(options)
const store = new RedisStore(client)
const leasing = new RedisStore(client, { prefix: 'leasing', leases: true })
const subject = (name: string) => RUN_SUBJECTS.find(one => one.name === name) as Subject
const limiterOf = (name: string) =>
  new RateLimiter({ name, policy: policyOf(subject(name)), store: name === 'leased' ? leasing : store, observer: {} })

function consuming(name: string, keys: number, [least, most]: readonly [number, number]): Promise<void> {
  const limiter = limiterOf(name)
  return forever(async () => {
    const key = `k${random.integer(1, keys)}`
    const cost = random.integer(1, 3)
    const begun: Begun = { op: 'consume', subject: name, key, cost }
    const done = await recorded(begun, () => limiter.consume(key, cost), facts)
    if (name === 'settled' && done?.answer.allowed) {
      const units = random.integer(0, cost)
      const settled: Begun = { op: 'settle', subject: name, key, of: done.id, units }
      await recorded(settled, () => limiter.settle(done.answer, units))
    }
    await ms(least, most)
  })
}

async function changing(): Promise<void> {
  const limiter = limiterOf('changed')
  await forever(async () => {
    const key = `k${random.integer(1, 2)}`
    const about = { subject: 'changed', key }
    const chance = random.integer(1, 40)
    if (chance === 1) await recorded({ ...about, op: 'block', blockMs: 3000 }, () => limiter.block(key, 3000))
    else if (chance === 2) await recorded({ ...about, op: 'reset' }, () => limiter.reset(key))
    else if (chance === 7) await recorded({ ...about, op: 'unblock' }, () => limiter.unblock(key))
    else if (chance === 8) await recorded({ ...about, op: 'charge', units: 2 }, () => limiter.charge(key, 2))
    else if (chance <= 6) await recorded({ ...about, op: 'refund', units: 2 }, () => limiter.refund(key, 2))
    else await recorded({ ...about, op: 'consume', cost: 1 }, () => limiter.consume(key), facts)
    await ms(5, 60)
  })
}

/** Limits that change while they are used: all processes follow, and now and then one of them changes them. */
async function following(): Promise<void> {
  const [given] = subject('live').limits ?? []
  const live = new LivePolicies(client, { defaults: { live: policyOf(subject('live')) }, observer: {} })
  const limiter = new RateLimiter({ name: 'live', policy: live.policy('live', key => key), store, observer: {} })
  await forever(async () => {
    if (random.integer(1, 300) === 1) {
      const quota = random.pick([10, 20, 40])
      const limits = [{ ...given, quota, burst: quota }]
      const begun: Begun = { op: 'limits', subject: 'live', key: '', limits }
      await recorded(begun, () => live.set('live', policyOf({ ...subject('live'), limits })))
    }
    const key = `k${random.integer(1, 2)}`
    await recorded({ op: 'consume', subject: 'live', key, cost: 1 }, () => limiter.consume(key), facts)
    await ms(5, 80)
  })
}

async function taking(): Promise<void> {
  const limiter = limiterOf('turns')
  const begun: Begun = { op: 'acquire', subject: 'turns', key: 'k', cost: 1, timeoutMs: 4000 }
  await forever(async () => {
    await recorded(begun, () => limiter.acquire('k', { timeout: 4000 }), facts)
    await ms(0, 200)
  })
}

async function sharing(): Promise<void> {
  const rate = new SharedRateLimiter(client, 'rate', { observer: {} })
  const begun: Begun = { op: 'acquire', subject: 'rate', key: 'rate', cost: 1, timeoutMs: 4000 }
  await forever(async () => {
    const done = await recorded(
      begun,
      () => rate.acquire(1, { timeout: 4000 }),
      () => ({ allowed: true, source: 'store' }),
    )
    // A server that has lost its keys does not know the rate.
    if (done === undefined) await rate.trySetRate({ rate: 10, interval: '1s' }).catch(() => {})
    await ms(0, 200)
  })
}

async function holding(): Promise<void> {
  const semaphore = new Semaphore(client, 'permits', { permits: 3, observer: {} })
  await forever(async () => {
    const permits = random.integer(1, 2)
    const about = { subject: 'permits', key: 'permits', permits }
    const begun: Begun = { ...about, op: 'hold', timeoutMs: 4000 }
    const held = await recorded(
      begun,
      () => semaphore.acquire({ permits, timeout: 4000, lease: 3000 }),
      ({ token }) => ({ granted: true, token: Number(token) }),
    )
    if (held === undefined) return ms(10, 100)
    const { id: of, answer: lease } = held
    await ms(5, 150)
    if (lease.held) await recorded({ ...about, op: 'release', of }, () => lease.release())
  })
}

async function queueing(): Promise<void> {
  const queue = new DelayQueue<number>(client, 'queue', { maxAttempts: 1000, observer: {} })
  let sent = 0
  const consumer = queue.consume(
    async delivery => {
      const about = { subject: 'queue', key: delivery.id, attempt: delivery.attempt }
      await recorded({ ...about, op: 'handle' }, () => ms(1, 40))
      await recorded({ ...about, op: 'acknowledge' }, () => delivery.ack())
    },
    { concurrency: 3, visibility: 3000 },
  )
  const sending = forever(async () => {
    const id = `${options.process}-${++sent}`
    const delayMs = random.integer(0, 1) * random.integer(1, 1000)
    await recorded({ op: 'send', subject: 'queue', key: id, delayMs }, () => queue.push(sent, { id, delay: delayMs }))
    await ms(20, 200)
  })
  await sending
  // An answer may be lost on a busy machine, and its message is delivered again 3 s later: somebody must be there.
  const isEmpty = async () => {
    const { ready, delayed, unacked } = await queue.stats()
    return ready + delayed + unacked === 0
  }
  await pause(4000)
  const endsAt = now() + EMPTY_MS
  while (now() < endsAt && !(await isEmpty().catch(() => false))) await pause(200)
  await consumer.close()
}

async function serving(): Promise<void> {
  const handled = new Set<string>()
  const app = express()
  app.use(
    rateLimit({ name: 'http', policy: policyOf(subject('http')), store, key: req => req.get('x-user'), observer: {} }),
  )
  app.get('/', (req, res) => {
    handled.add(req.get('x-id') ?? '')
    const { source } = req.rateLimit ?? { source: 'redis' }
    res.set('x-source', source).send('hello')
  })
  const server = createServer(app).listen(0, '127.0.0.1')
  await new Promise(resolve => server.once('listening', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  let count = 0
  await forever(async () => {
    const key = `k${random.integer(1, 2)}`
    const id = String(++count)
    const begun: Begun = { op: 'request', subject: 'http', key, cost: 1 }
    await recorded(
      begun,
      () => fetch(url, { headers: { 'x-user': key, 'x-id': id } }),
      ({ status, headers }) => {
        const source = headers.get('x-source') ?? 'redis'
        const told = { source: status === 200 ? (SOURCES[source] ?? source) : undefined, handled: handled.delete(id) }
        return { status, retryAfter: headers.get('retry-after') ?? undefined, allowed: status === 200, ...told }
      },
    )
    await ms(5, 80)
  })
  server.closeAllConnections()
  server.close()
}

await Promise.all([
  watching(),
  ...['sliding', 'fixed', 'counter', 'bucket', 'leaky', 'both'].map(name => consuming(name, 2, [5, 80])),
  consuming('settled', 2, [5, 80]),
  ...(options.number % 3 === 1 ? [consuming('leased', 1, [0, 6])] : []),
  changing(),
  following(),
  taking(),
  sharing(),
  holding(),
  queueing(),
  serving(),
])
process.exit(0)
