// A limit that is changed while the service runs: the change is made in one of two servers, and both apply it.
// Needs a Redis: REDIS_URL, by default redis://127.0.0.1:6379.
//
//   node --import tsx examples/live.ts
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import express from 'express'
import { Redis } from 'ioredis'
import { RedisStore } from 'spillway'
import { rateLimit } from 'spillway/express'
import { LivePolicies } from 'spillway/live'

const redisUrl = process.env.REDIS_URL ?? 'redis://127.0.0.1:6379'
const userOf = (req: express.Request) => req.get('x-user')

/** A server with its own connection, as it would be in a process of its own. */
async function serve() {
  const redis = new Redis(redisUrl)
  // Spillway says when Redis does not answer.
  redis.on('error', () => {})
  const live = new LivePolicies(redis, { defaults: { api: '3/1m' }, prefix: 'example-live' })
  const app = express()
  const store = new RedisStore(redis, { prefix: 'example-live' })
  // Waits longer for Redis than by default, so that a busy machine does not count alone.
  app.use(rateLimit({ key: userOf, store, policy: live.policy('api', userOf), deadline: '2s' }))
  app.get('/', (_req, res) => void res.send('hello\n'))
  const server = app.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { live, redis, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` }
}

/** Six requests of a user, one after another, to the servers in turn. */
async function ask(user: string, servers: ReadonlyArray<{ url: string }>): Promise<void> {
  const answers: string[] = []
  for (let i = 0; i < 6; i++) {
    const { status } = await fetch(servers[i % servers.length].url, { headers: { 'x-user': user } })
    answers.push(status === 200 ? 'passed' : 'refused')
  }
  console.log(`  ${user}: ${answers.join(', ')}`)
}

const probe = new Redis(redisUrl, { lazyConnect: true, retryStrategy: () => null })
probe.on('error', () => {})
try {
  await probe.connect()
} catch {
  console.error(`No Redis at ${redisUrl}: start one, or set REDIS_URL`)
  process.exit(1)
}

// A change rejects if Redis does not answer for five seconds; the limits that were known last stay in force.
await change().catch(error => {
  console.error(error.message)
  process.exit(1)
})
process.exit(0)

async function change(): Promise<void> {
  const servers = [await serve(), await serve()]
  const [one, two] = servers
  await one.live.clear('api', { by: 'example' })
  await one.live.clear('api', { key: 'ada', by: 'example' })

  // User names of this run only, so that the example can be run again at once.
  const [ada, bob] = ['ada', 'bob'].map(name => `${name}-${process.pid}`)

  console.log('3 per minute, the default:')
  await ask(bob, servers)

  await one.live.set('api', '5/1m', { by: 'ann' })
  await one.live.set('api', '100/1m', { key: ada, until: '1h', by: 'ann' })
  await sleep(100)
  console.log('ann sets 5 per minute, and 100 for ada for an hour; what bob has spent counts on:')
  await ask(bob, servers)
  await ask(ada, servers)

  await two.live.clear('api', { by: 'bert' })
  console.log('bert takes the first change back. The history:')
  for (const { by, key, policy, until } of (await two.live.history('api')).slice(0, 3)) {
    console.log(`  ${by}: ${key === undefined ? 'all' : 'ada'} ${policy ?? 'cleared'}${until ? ', for an hour' : ''}`)
  }
}
