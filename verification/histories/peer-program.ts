// One process of a run with a peer instead of our package: as its documents say to use it.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { Ratelimit } from '@upstash/ratelimit'
import { Redis as Upstash } from '@upstash/redis'
import Bottleneck from 'bottleneck'
import { Queue, Worker } from 'bullmq'
import express from 'express'
import { rateLimit } from 'express-rate-limit'
import { Cluster, Redis } from 'ioredis'
import { RedisStore } from 'rate-limit-redis'
import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import { Semaphore } from 'redis-semaphore'
import { RestFront } from '../../test/support/rest-front.js'
import { forever, ms, options, random, recorded, watching } from './recording.js'
import { now } from './subjects.js'
import type { Begun } from './use.js'

/** What is used of a job. */
interface Job {
  readonly data: string
  readonly attemptsStarted: number
  readonly processedOn?: number
}

const { topology, servers, sentinels, doors } = options.place
const isCluster = topology === 'cluster'
const [{ port: target }] = servers
const { host, port } = doors[target]
const natMap = Object.fromEntries(servers.map(server => [`${server.host}:${server.port}`, doors[server.port]]))
const retryStrategy = (times: number) => Math.min(times * 50, 1000)
const nodes = servers.map(server => doors[server.port])
/** Of a single server, or of that which the sentinels name. */
const connection = {
  single: { host, port, retryStrategy },
  sentinel: {
    sentinels: [...sentinels],
    name: 'spillway',
    natMap,
    retryStrategy,
    sentinelRetryStrategy: retryStrategy,
  },
  cluster: {},
}[topology]
const clusterOptions = { natMap, clusterRetryStrategy: retryStrategy }

function connect(more: { enableOfflineQueue?: boolean; maxRetriesPerRequest?: null } = {}): Redis | Cluster {
  const { enableOfflineQueue, ...redisOptions } = more
  const redis = isCluster
    ? new Cluster(nodes, { ...clusterOptions, enableOfflineQueue, redisOptions })
    : new Redis({ ...connection, ...more })
  redis.on('error', () => {})
  return redis
}

const asked = (subject: string): Extract<Begun, { cost: number }> => {
  return { op: 'consume', subject, key: `k${random.integer(1, 2)}`, cost: 1 }
}

const PROGRAMS: Readonly<Record<string, () => Promise<unknown>>> = {
  'rate-limit-redis': async () => {
    const redis = connect()
    const handled = new Set<string>()
    const app = express()
    const sendCommand = (command: string, ...words: string[]) => redis.call(command, ...words) as Promise<string>
    const keyGenerator = (req: express.Request) => req.get('x-user') ?? ''
    app.use(rateLimit({ windowMs: 1000, limit: 20, keyGenerator, store: new RedisStore({ sendCommand }) }))
    app.get('/', (req, res) => {
      handled.add(req.get('x-id') ?? '')
      res.send('hello')
    })
    app.use((_: unknown, __: express.Request, res: express.Response, ___: express.NextFunction) => {
      res.status(500).end()
    })
    const server = createServer(app).listen(0, '127.0.0.1')
    await new Promise(resolve => server.once('listening', resolve))
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
    let count = 0
    const asking = () =>
      forever(async () => {
        const id = String(++count)
        const begun = { ...asked('http'), op: 'request' } as const
        await recorded(
          begun,
          async () => {
            const response = await fetch(url, { headers: { 'x-user': begun.key, 'x-id': id } })
            if (response.status === 500) throw new Error('status 500')
            return response
          },
          ({ status, headers }) => {
            const told = { status, retryAfter: headers.get('retry-after') ?? undefined, allowed: status === 200 }
            return { ...told, source: 'store', handled: handled.delete(id) }
          },
        )
        await ms(5, 60)
      })
    await Promise.all([asking(), asking()])
  },

  'rate-limiter-flexible': async () => {
    const storeClient = connect({ enableOfflineQueue: false })
    const limiter = new RateLimiterRedis({ storeClient, points: 20, duration: 1 })
    const asking = () =>
      forever(async () => {
        const begun = asked('fixed')
        await recorded(
          begun,
          () =>
            limiter.consume(begun.key).then(
              () => ({ allowed: true, retryAfterMs: 0 }),
              (refusal: { msBeforeNext?: number }) => {
                if (!(refusal instanceof RateLimiterRes)) throw refusal
                return { allowed: false, retryAfterMs: refusal.msBeforeNext }
              },
            ),
          (told: object) => ({ ...told, source: 'store' }),
        )
        await ms(5, 60)
      })
    await Promise.all([asking(), asking()])
  },

  '@upstash/ratelimit': async () => {
    const front = await RestFront.start({ port })
    const redis = new Upstash({ ...front.access, enableTelemetry: false })
    const limiters = {
      fixed: new Ratelimit({ redis, prefix: 'fixed', limiter: Ratelimit.fixedWindow(20, '1 s') }),
      sliding: new Ratelimit({ redis, prefix: 'sliding', limiter: Ratelimit.slidingWindow(20, '1 s') }),
      bucket: new Ratelimit({ redis, prefix: 'bucket', limiter: Ratelimit.tokenBucket(20, '1 s', 30) }),
    }
    const asking = ([name, limiter]: readonly [string, Ratelimit]) =>
      forever(async () => {
        const begun = asked(name)
        await recorded(
          begun,
          () => limiter.limit(begun.key),
          ({ success, reason }) => {
            const source = { timeout: 'open', cacheBlock: 'memory' }[reason as string] ?? 'store'
            return { allowed: success, source }
          },
        )
        await ms(5, 60)
      })
    await Promise.all(Object.entries(limiters).map(asking))
  },

  'redis-semaphore': async () => {
    const redis = connect()
    const holding = () =>
      forever(async () => {
        const about = { subject: 'permits', key: 'permits', permits: 1 }
        let isLost = false
        const semaphore = new Semaphore(redis, 'permits', 3, {
          lockTimeout: 3000,
          acquireTimeout: 4000,
          onLockLost: () => {
            isLost = true
          },
        })
        const held = await recorded(
          { ...about, op: 'hold', timeoutMs: 4000 },
          () => semaphore.acquire(),
          () => ({ granted: true }),
        )
        if (held === undefined) return ms(10, 100)
        await ms(5, 150)
        const release: Begun = { ...about, op: 'release', of: held.id }
        if (!isLost) await recorded(release, () => semaphore.release())
      })
    await Promise.all([holding(), holding()])
  },

  bottleneck: async () => {
    const clustered = (id: string, more: object) => {
      const where = isCluster ? { clusterNodes: nodes, clientOptions: clusterOptions } : { clientOptions: connection }
      const made = new Bottleneck({ id, datastore: 'ioredis', ...where, Redis, clearDatastore: false, ...more })
      made.on('error', () => {})
      return made
    }
    const every = { reservoir: 50, reservoirRefreshAmount: 50, reservoirRefreshInterval: 5000 }
    const limiter = clustered('reservoir', every)
    const semaphore = clustered('concurrent', { maxConcurrent: 3 })
    const spending = () =>
      forever(async () => {
        const begun: Begun = { op: 'consume', subject: 'reservoir', key: 'k', cost: 1 }
        await recorded(
          begun,
          () => limiter.schedule({ expiration: 3000 }, async () => {}),
          () => ({ allowed: true, source: 'store' }),
        )
        await ms(5, 200)
      })
    const holding = () =>
      forever(async () => {
        const about = { subject: 'concurrent', key: 'k', permits: 1 }
        await new Promise<void>(begins => {
          const begun = recorded(
            { ...about, op: 'hold' },
            () =>
              new Promise<{ end(): void }>((granted, fail) => {
                const job = () => new Promise<void>(end => granted({ end }))
                semaphore.schedule({ expiration: 3000 }, job).catch(fail)
              }),
            () => ({ granted: true }),
          )
          void begun.then(async held => {
            await ms(5, 150)
            if (held !== undefined) {
              await recorded({ ...about, op: 'release', of: held.id }, async () => held.answer.end())
            }
            begins()
          })
        })
      })
    await Promise.race([Promise.all([spending(), spending(), holding(), holding()]), untilTold()])
  },

  bullmq: async () => {
    // Options of one server it takes as they are; of a cluster it wants a client, and a prefix that keeps its keys
    // together.
    const producing = isCluster ? connect({ enableOfflineQueue: false }) : { ...connection, enableOfflineQueue: false }
    const working = { maxRetriesPerRequest: null }
    const together = isCluster ? { prefix: '{bull}' } : {}
    const queue = new Queue('jobs', {
      connection: producing,
      ...together,
      defaultJobOptions: { removeOnComplete: true },
    })
    queue.on('error', () => {})
    const worker = new Worker(
      'jobs',
      async (job: Job) => {
        const key = String(job.data)
        // The limiter let it through after this moment.
        const askedAt = now() - (Date.now() - (job.processedOn ?? Date.now()))
        const limited: Begun = { op: 'consume', subject: 'jobs', key: 'jobs', cost: 1 }
        await recorded(
          limited,
          async () => {},
          () => ({ allowed: true, source: 'store', askedAt }),
        )
        const attempt = job.attemptsStarted
        await recorded({ op: 'handle', subject: 'queue', key, attempt }, () => ms(1, 40))
      },
      {
        connection: isCluster ? connect(working) : { ...connection, ...working },
        ...together,
        limiter: { max: 20, duration: 1000 },
        concurrency: 3,
        lockDuration: 3000,
        stalledInterval: 3000,
        maxStalledCount: 1000,
      },
    )
    worker.on('error', () => {})
    worker.on('completed', (job: Job) => {
      void recorded({ op: 'acknowledge', subject: 'queue', key: String(job.data) }, async () => {})
    })
    let sent = 0
    const sending = forever(async () => {
      const key = `${options.process}-${++sent}`
      await recorded({ op: 'send', subject: 'queue', key, delayMs: 0 }, () => queue.add('job', key))
      await ms(150, 400)
    })
    await Promise.race([sending.then(() => pause(8000)), untilTold().then(() => pause(9000))])
  },
}

/** Resolves when the process is told to end, although what waits may never be answered. */
async function untilTold(): Promise<void> {
  await forever(() => pause(100))
  await pause(1000)
}

await Promise.all([watching(), PROGRAMS[options.client]()])
process.exit(0)
