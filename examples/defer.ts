// Webhooks accepted at any rate and processed at 5 per second, at most 2 per second of one customer, by two workers, one
// of which is killed on the way. Nothing is lost. Starts a Redis of its own; or set REDIS_URL.
//
//   node --import tsx examples/defer.ts
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import express from 'express'
import { Redis } from 'ioredis'
import { DelayQueue, RateLimiter, RedisStore, SharedRateLimiter } from 'spillway'
import { rateLimit } from 'spillway/express'

const WEBHOOKS = 20
const NAME = 'examples/defer'

interface Webhook {
  event: number
  customer: string
}

if (process.send) await work(new Redis(process.env.REDIS_URL as string))
else await drive()

/** One of the workers: both together process 5 per second, and 2 of one customer, in any second. */
async function work(redis: Redis): Promise<void> {
  // Messages wait until Redis is back.
  redis.on('error', () => {})
  // Short, so that the messages of a killed worker are delivered again quickly.
  const queue = new DelayQueue<Webhook>(redis, NAME, { visibility: '1s' })
  // One rate for all: each delivery waits for it before its handler begins.
  const limiter = new SharedRateLimiter(redis, NAME)
  await limiter.trySetRate({ rate: 5, interval: '1s' })
  // A rate for each customer: the handler waits for it. If its turn would come later, `acquire` rejects, and the message
  // comes back after the backoff.
  const customers = new RateLimiter({ policy: '2/1s', name: NAME, store: new RedisStore(redis) })
  queue.consume(
    async ({ payload: { event, customer }, attempt }) => {
      await customers.acquire(customer, { timeout: '5s' })
      await redis.rpush(`${NAME}:begun`, `${Date.now()} ${customer}`)
      await new Promise(resolve => setTimeout(resolve, 100))
      await redis.sadd(`${NAME}:done`, event)
      process.send?.(`${event} of ${customer}${attempt > 1 ? ' (again)' : ''}`)
    },
    { concurrency: 4, limiter },
  )
  process.send?.('ready')
  process.once('disconnect', () => process.exit(0))
}

async function drive(): Promise<void> {
  const server = process.env.REDIS_URL ? undefined : await startRedis()
  const url = process.env.REDIS_URL ?? (server?.url as string)
  const redis = new Redis(url)
  // The server may not listen yet.
  redis.on('error', () => {})
  await redis.ping()
  const queue = new DelayQueue<Webhook>(redis, NAME)
  await redis.del(`${NAME}:done`, `${NAME}:begun`)

  const app = express().use(express.json())
  const receive = rateLimit({ policy: '5/1s', key: () => 'all', defer: { queue, message: req => req.body } })
  // A webhook within the limit also goes into the queue, but is due at once: the workers process all of them.
  app.post('/webhook', receive, async (req, res) => {
    // It rejects while Redis does not answer: whoever calls sends it again.
    const id = await queue.push(req.body).catch(() => undefined)
    res.status(id === undefined ? 503 : 202).json({ id })
  })
  const listening = app.listen(0, '127.0.0.1')
  await once(listening, 'listening')
  const { port } = listening.address() as AddressInfo

  const workers = await Promise.all([startWorker(url, 'worker 1'), startWorker(url, 'worker 2')])
  const startedAt = Date.now()
  const answers = await Promise.all(
    Array.from({ length: WEBHOOKS }, (_, event) =>
      fetch(`http://127.0.0.1:${port}/webhook`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ event, customer: event % 2 === 0 ? 'ann' : `c${event}` }),
      }),
    ),
  )
  const accepted = answers.filter(({ status }) => status === 202).length
  console.log(`${accepted} webhooks accepted in ${Date.now() - startedAt} ms`)

  setTimeout(() => {
    workers[0].kill('SIGKILL')
    console.log('worker 1 is killed')
  }, 1500)
  while ((await redis.scard(`${NAME}:done`)) < accepted) await new Promise(resolve => setTimeout(resolve, 20))
  const seconds = ((Date.now() - startedAt) / 1000).toFixed(1)
  console.log(`${accepted} processed in ${seconds} s; lost: 0`)
  const begun = (await redis.lrange(`${NAME}:begun`, 0, -1)).map(line => line.split(' '))
  const beganAfter = (place: number, lines = begun) => ((Number(lines[place - 1][0]) - startedAt) / 1000).toFixed(3)
  const ofAnn = begun.filter(([, customer]) => customer === 'ann')
  console.log(`5 per second: the 16th began after ${beganAfter(16)} s`)
  console.log(`2 per second of ann: her 10th began after ${beganAfter(10, ofAnn)} s`)

  for (const worker of workers) if (worker.connected) worker.disconnect()
  await queue.close()
  await redis.del(`${NAME}:done`, `${NAME}:begun`)
  redis.disconnect()
  listening.close()
  server?.stop()
}

async function startWorker(url: string, name: string): Promise<ChildProcess> {
  const worker = fork(process.argv[1], { env: { ...process.env, REDIS_URL: url } })
  await once(worker, 'message')
  worker.on('message', event => console.log(`${name} has done ${event}`))
  return worker
}

async function startRedis(): Promise<{ url: string; stop(): void }> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  const server = spawn('redis-server', ['--port', `${port}`, '--bind', '127.0.0.1', '--save', ''], { stdio: 'ignore' })
  server.once('error', () => {
    console.error('No redis-server on this machine: install one, or set REDIS_URL')
    process.exit(1)
  })
  process.once('exit', () => server.kill())
  return { url: `redis://127.0.0.1:${port}`, stop: () => server.kill() }
}
