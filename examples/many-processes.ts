// One quota for several processes: two servers, one Redis. Needs a Redis: REDIS_URL, by default redis://127.0.0.1:6379.
//
//   node --import tsx examples/many-processes.ts
import { fork } from 'node:child_process'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import express from 'express'
import { Redis } from 'ioredis'
import { RedisStore } from 'spillway'
import { rateLimit } from 'spillway/express'

const redisUrl = process.env.REDIS_URL ?? 'redis://127.0.0.1:6379'

if (process.send) await serve()
else await drive()

/** One of the servers. It does not know the other. */
async function serve(): Promise<void> {
  const redis = new Redis(redisUrl)
  // Without Redis each process counts alone, and spillway says so.
  redis.on('error', () => {})
  await once(redis, 'ready')
  const app = express()
  app.use(
    rateLimit({
      policy: '20/1m',
      name: 'many-processes',
      key: () => 'everybody',
      store: new RedisStore(redis),
      // Longer than the default 50 ms, after which a process decides alone: the example shows a common count, also on a
      // busy machine.
      deadline: '2s',
    }),
  )
  app.get('/', (_req, res) => {
    res.send(`hello from process ${process.pid}\n`)
  })
  const server = app.listen(0, '127.0.0.1')
  await once(server, 'listening')
  process.send?.(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
  process.once('disconnect', () => process.exit(0))
}

async function drive(): Promise<void> {
  await forget()
  const servers = [fork(process.argv[1]), fork(process.argv[1])]
  process.once('SIGINT', () => process.exit(130))
  const urls: string[] = await Promise.all(servers.map(async server => (await once(server, 'message'))[0] as string))
  console.log(`Two servers, ${urls.join(' and ')}, one Redis, one quota: 20/1m for both together.`)
  const passed = await Promise.all(urls.map(url => hammer(url, 50)))
  console.log(`50 requests to each at once: ${passed.join(' and ')} passed, ${passed[0] + passed[1]} together.`)
  for (const server of servers) server.disconnect()
}

/** How many of `requests` sent at once get through. */
async function hammer(url: string, requests: number): Promise<number> {
  const replies = await Promise.all(Array.from({ length: requests }, () => fetch(url)))
  return replies.filter(reply => reply.status === 200).length
}

/** So that the example can be run again within the minute. Fails early, in one line, where there is no Redis. */
async function forget(): Promise<void> {
  const redis = new Redis(redisUrl, { lazyConnect: true, retryStrategy: () => null })
  redis.on('error', () => {})
  try {
    await redis.connect()
  } catch {
    console.error(`No Redis at ${redisUrl}: start one, or set REDIS_URL`)
    process.exit(1)
  }
  const keys = await redis.keys('spillway:*many-processes*')
  if (keys.length > 0) await redis.unlink(keys)
  redis.disconnect()
}
