// A minute without Redis: how the heap, the decisions and the return fare, with 200 decisions in flight in each of
// three processes, each with another client as its users make it.
//
//   node --import tsx bench/outage.ts        two outages of 60 s
//   node --import tsx bench/outage.ts 10     of 10 s
import { setTimeout as pause } from 'node:timers/promises'
import { Child } from '../test/support/child.js'
import { RedisServer } from '../test/support/redis-server.js'
import type { Fares } from '../verification/faults/outage-program.js'

const SECONDS = Number(process.argv[2] ?? 60)
const SAMPLES = 6
const CLIENTS = ['ioredis', 'ioredis 5', 'node-redis']
const PROGRAM = "import './verification/faults/outage-program.ts'"

/** What is done to the server, and undone. */
const OUTAGES: Readonly<
  Record<string, readonly [begin: (redis: RedisServer) => unknown, end: (redis: RedisServer) => unknown]>
> = {
  'hangs (SIGSTOP)': [redis => redis.pause(), redis => redis.unpause()],
  'is dead (SIGKILL)': [redis => redis.kill(), redis => redis.restart()],
}

for (const [name, [begin, end]] of Object.entries(OUTAGES)) {
  const redis = await RedisServer.start()
  const start = (client: string) => Child.start(PROGRAM, [client, redis.port], ['--expose-gc'])
  const children = await Promise.all(CLIENTS.map(start))
  const ask = () => Promise.all(children.map(child => child.ask<Fares>('how')))
  await pause(1000)
  const samples: Fares[][] = []
  await begin(redis)
  for (let i = 0; i <= SAMPLES; i++) {
    await pause(i === 0 ? 1000 : ((SECONDS - 1) / SAMPLES) * 1000)
    samples.push(await ask())
  }
  await end(redis)
  const endedAt = Date.now()
  await pause(3000)
  const last = await ask()
  for (const child of children) child.kill()
  await redis.stop()

  console.log(`\nRedis ${name} for ${SECONDS} s`)
  // Collecting the heap stops a process, so the slowest decision is a little slower here than in the tests.
  const rows = last.map(({ decisions, degraded, slowestMs, redisAt, aloneAt, unhandled }, i) => ({
    client: CLIENTS[i],
    decisions,
    degraded,
    'heap MB, after 1 s and then evenly': samples.map(sample => (sample[i].heap / 1e6).toFixed(1)).join(' '),
    'slowest ms': slowestMs.toFixed(0),
    'back after ms': redisAt > aloneAt ? Math.max(0, aloneAt - endedAt) : 'not yet',
    unhandled,
  }))
  console.table(rows)
}
