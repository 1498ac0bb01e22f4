// One rate for all processes: twenty workers in four processes call a provider that allows ten calls a second; then it
// allows thirty. Needs a Redis: REDIS_URL, by default redis://127.0.0.1:6379.
//
//   node --import tsx examples/shared-rate.ts
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { SharedRateLimiter } from 'spillway'

const PROCESSES = 4
const WORKERS = 5
const CALLS = 100

const redisUrl = process.env.REDIS_URL ?? 'redis://127.0.0.1:6379'

if (process.send) await work()
else await watch().catch(error => fail(error.message))

/**
 * Five workers, each of which waits for a permit before every call. They know neither the other workers nor the rate.
 */
async function work(): Promise<void> {
  const redis = new Redis(redisUrl)
  redis.on('error', () => {})
  const limiter = new SharedRateLimiter(redis, 'example-provider')
  const worker = async () => {
    for (;;) {
      // It rejects if Redis does not answer for five seconds: without a permit there is no call.
      const isPermitted = await limiter.acquire().then(
        () => true,
        () => false,
      )
      if (isPermitted) process.send?.('call')
      else await sleep(100)
    }
  }
  process.once('disconnect', () => process.exit(0))
  process.send?.('ready')
  await once(process, 'message')
  for (let i = 0; i < WORKERS; i++) void worker()
}

/** The provider, which counts its calls; it also raises the rate later. */
async function watch(): Promise<void> {
  const limiter = new SharedRateLimiter(await connected(), 'example-provider')
  await limiter.setRate({ rate: 10, interval: '1s', keepAlive: '1m' })
  const processes = Array.from({ length: PROCESSES }, () => fork(process.argv[1]))
  const calls: number[] = []
  const enough = new Promise<void>(done => {
    for (const each of processes) {
      each.on('message', word => {
        if (word === 'call' && calls.push(performance.now()) === CALLS) done()
      })
    }
  })
  // All start together: otherwise the first process would make all calls of the first second.
  await Promise.all(processes.map(each => once(each, 'message')))
  for (const each of processes) each.send('go')
  console.log(`${PROCESSES * WORKERS} workers in ${PROCESSES} processes, 10 calls per second for all of them.`)
  await sleep(2200)
  // Permits of the last second still count, as the calls do at the provider.
  await limiter.updateRate({ rate: 30, interval: '1s', keepAlive: '1m' }, { keepState: true })
  console.log('After 2.2 s the provider allows 30; everybody who waits has heard of it.')
  await enough
  // A worker may be reporting a call at this moment: without its channel it would fail with EPIPE.
  for (const each of processes) each.kill()

  const seconds: number[] = []
  // Grants come an interval after those before: so no second begins where a handful of them arrives.
  for (const at of calls.slice(0, CALLS)) {
    const second = Math.floor((at - calls[0] + 500) / 1000)
    seconds[second] = (seconds[second] ?? 0) + 1
  }
  console.log(`Calls, second by second: ${seconds.join(', ')}.`)
  console.log(
    `${CALLS} calls in ${((calls[CALLS - 1] - calls[0]) / 1000).toFixed(1)} s; at 10 per second it would have been 9.`,
  )
  await limiter.delete()
  process.exit(0)
}

/** Fails early, in one line, where there is no Redis. */
async function connected(): Promise<Redis> {
  let isThere = false
  const redis = new Redis(redisUrl, { lazyConnect: true, retryStrategy: () => (isThere ? 100 : null) })
  redis.on('error', () => {})
  try {
    await redis.connect()
    isThere = true
  } catch {
    fail(`No Redis at ${redisUrl}: start one, or set REDIS_URL`)
  }
  return redis
}

function fail(why: string): never {
  console.error(why)
  process.exit(1)
}
