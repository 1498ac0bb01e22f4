// Calls to a partner that allows 20 per second: two processes share the limit over Redis, and none of their calls is
// refused. Starts a Redis of its own; or set REDIS_URL.
//
//   node --import tsx examples/polite-fetch.ts
import { fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import express from 'express'
import { Redis } from 'ioredis'
import { rateLimit } from 'spillway/express'
import { politeFetch } from 'spillway/outgoing'

const CALLS = 30

if (process.send) await call(process.env.PARTNER as string, new Redis(process.env.REDIS_URL as string))
else await drive()

/** The part for your service: a `fetch` that keeps to the partner's limit. */
async function call(partner: string, client: Redis) {
  // Without Redis each process keeps to its part of the limit.
  client.on('error', () => {})
  const polite = politeFetch({ client, limits: { [partner]: { rate: 20, interval: '1s' } } })
  const calls = await Promise.allSettled(Array.from({ length: CALLS }, () => polite(`${partner}/things`)))
  const statuses = calls.flatMap(call => (call.status === 'fulfilled' ? [call.value.status] : []))
  const refused = statuses.filter(status => status === 429).length
  console.log(`process ${process.pid}: ${statuses.length - refused} calls answered, ${refused} refused`)
  // It rejects as `fetch` does, and if the partner's turn does not come within `maxWait`.
  for (const call of calls) if (call.status === 'rejected') console.error(`not sent: ${call.reason.message}`)
  client.disconnect()
  process.disconnect?.()
}

/** The partner, which refuses calls over its limit, and two processes that call it. */
async function drive() {
  const app = express()
  app.use(rateLimit({ policy: '20/1s', key: () => 'everybody' }))
  app.get('/things', (_req, res) => {
    res.send('things\n')
  })
  const server = app.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const partner = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  const redis = process.env.REDIS_URL ? undefined : await startRedis()
  const startedAt = performance.now()
  const env = { ...process.env, REDIS_URL: redis?.url ?? process.env.REDIS_URL, PARTNER: partner }
  await Promise.all([1, 2].map(() => once(fork(process.argv[1], { env }), 'exit')))
  const seconds = (performance.now() - startedAt) / 1000
  console.log(`${2 * CALLS} calls at 20 per second took ${seconds.toFixed(1)} s`)
  server.close()
  redis?.stop()
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
