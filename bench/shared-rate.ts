// One rate for many processes: does it give all of what it promises and no more, in order, and what does that cost
// Redis?
//
//   node --import tsx bench/shared-rate.ts     about a minute
import type { Redis } from 'ioredis'
import { ManualClock } from '../src/testing.js'
import { SharedRateLimiter } from '../src/waiting/rate/shared-rate-limiter.js'
import { eventually } from '../test/support/eventually.js'
import { GrantLog, logOf, mostWithin, RateWorkers } from '../test/support/rate-workers.js'
import { RedisServer } from '../test/support/redis-server.js'
import { figure, single, tableText } from './contest/figures.js'
import { type Claim, claimTable, progress } from './contest/report.js'

const claims: Claim[] = []
const claim = (text: string, bound: Claim['bound'], target: number, measured: number, unit: string) =>
  claims.push({ text, bound, target, measured: single(measured), unit })

/** Eight processes, in each of which one asks again as soon as it has been granted. */
async function allOfIt(rate: number, intervalMs: number, leastPercent: number): Promise<void> {
  progress(`${rate} per ${intervalMs} ms, eight processes`)
  const redis = await RedisServer.start()
  const limiter = new SharedRateLimiter(redis.client(), 'bench')
  await limiter.setRate({ rate, interval: intervalMs })
  const workers = await RateWorkers.start(8, redis.url, 'bench')
  // 200 at least, and for all of ten intervals.
  const each = Math.ceil(Math.max(200, rate * 10.5) / 8)
  const log = new GrantLog(redis.client(), logOf('bench'), intervalMs)
  await Promise.all(workers.processes.map((_, worker) => workers.acquire(worker, each, { lanes: 1 })))
  const times = await log.stop(each * 8)
  workers.stop()
  await redis.stop()
  const within = times.filter(at => at - times[0] < 10 * intervalMs).length
  const name = `${rate} per ${intervalMs} ms, 8 processes, ${times.length} grants`
  claim(
    `${name}: most in any interval, by the server's clock`,
    'at most',
    rate,
    mostWithin(intervalMs, times),
    'grants',
  )
  claim(`${name}: of what ten intervals allow`, 'at least', leastPercent, (100 * within) / (10 * rate), '%')
}

/** A hundred wait all the time, in four processes. */
async function crowd(): Promise<void> {
  progress('100 waiters in four processes, for ten seconds')
  const redis = await RedisServer.start()
  const admin = redis.client()
  const limiter = new SharedRateLimiter(admin, 'bench')
  await limiter.setRate({ rate: 10, interval: 1000 })
  const workers = await RateWorkers.start(4, redis.url, 'bench')
  const log = new GrantLog(redis.client(), logOf('bench'), 1000)
  const line = new Line(redis.client())
  await admin.config('RESETSTAT')
  const until = Date.now() + 10_000
  const order = { lanes: 25, until }
  const answers = await Promise.all(
    workers.processes.map((_, worker) => workers.acquire(worker, Number.MAX_SAFE_INTEGER, order)),
  )
  const calls = await scriptCalls(admin)
  line.stop()
  const granted = answers.reduce((sum, { at }) => sum + at.length, 0)
  const times = await log.stop(granted)
  workers.stop()
  await redis.stop()
  const astray = answers.flatMap(({ asked }) => asked.filter((number, i) => i > 0 && number < asked[i - 1])).length
  const name = '10 per 1 s, 100 waiters in 4 processes for 10 s'
  claim(`${name}: script calls beyond 3 for each of ${granted} grants`, 'at most', 100, calls - 3 * granted, 'calls')
  claim(`${name}: most in any interval`, 'at most', 10, mostWithin(1000, times), 'grants')
  claim(`${name}: overtaken in their process`, 'exactly', 0, astray, 'waiters')
  claim(`${name}: changes of order in the line of all`, 'exactly', 0, line.changes, 'waiters')
  console.log(
    `${name}: ${calls} script calls, ${figure(calls / granted)} a grant; the line was read ${line.reads} times\n`,
  )
}

/** The line as it is seen from time to time: it only moves on. */
class Line {
  reads = 0
  changes = 0
  #last: string[] = []
  readonly #timer: ReturnType<typeof setInterval>

  constructor(readonly redis: Redis) {
    this.#timer = setInterval(() => this.#read(), 50)
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  async #read(): Promise<void> {
    const ids = await this.redis.zrange('spillway:{bench}:rate:line', '0', '-1')
    const stayed = this.#last.filter(id => ids.includes(id))
    this.changes += stayed.filter((id, i) => ids.filter(each => stayed.includes(each))[i] !== id).length
    this.#last = ids
    this.reads++
  }
}

/** A hundred thousand grants, no two in the same millisecond. */
async function memory(): Promise<void> {
  progress('100 000 grants in one interval')
  const grants = 100_000
  const redis = await RedisServer.start({ args: ['--slowlog-max-len', '1000'] })
  const admin = redis.client()
  const clock = new ManualClock(1_700_000_000_000)
  const limiter = new SharedRateLimiter(redis.client(), 'bench', { clock })
  const interval = 2 * grants
  await limiter.setRate({ rate: grants, interval })
  const used = async () => Number(/used_memory:(\d+)/.exec(await admin.info('memory'))?.[1])
  const before = await used()
  const fill = async () => {
    // One after the other: what is asked in one turn is decided at one moment.
    for (let done = 0; done < grants; done++) {
      clock.advance(1)
      if (!(await limiter.tryAcquire())) throw new Error('a grant was refused')
    }
  }
  await fill()
  const keys = await admin.keys('*')
  const sizes = await Promise.all(keys.map(async key => Number(await admin.memory('USAGE', key, 'SAMPLES', 0))))
  const total = sizes.reduce((sum, size) => sum + size, 0)
  claim('100 000 grants at distinct ms: bytes each, of all keys', 'at most', 24, total / grants, 'bytes')
  claim(
    '100 000 grants at distinct ms: bytes each, as the server grew',
    'at most',
    24,
    ((await used()) - before) / grants,
    'bytes',
  )
  const slowest = async (what: string, act: () => Promise<unknown>, aboveMicros = 0) => {
    await admin.config('SET', 'slowlog-log-slower-than', aboveMicros)
    await admin.slowlog('RESET')
    await act()
    const entries = (await admin.slowlog('GET', 1000)) as [number, number, number, string[]][]
    const calls = entries.filter(([, , , [command]]) => /^eval/i.test(command)).map(([, , us]) => us / 1000)
    calls.sort((a, b) => b - a)
    claim(`longest script call: ${what}`, 'at most', 10, calls[0] ?? 0, 'ms')
    return calls
  }
  await slowest('looking at them', () => limiter.availablePermits())
  await slowest('a refusal', () => limiter.tryAcquire(2))
  clock.advance(interval)
  await slowest('all 100 000 expire at once', () => limiter.tryAcquire())
  clock.advance(interval)
  const calls = await slowest('the next 100 000', fill, 500)
  // Of so many alike the longest are those during which the system set the server aside.
  claim('tenth longest script call: the next 100 000', 'at most', 10, calls[9] ?? 0, 'ms')
  const keep = { keepState: true }
  await slowest('a rate half as high', () => limiter.setRate({ rate: grants / 2, interval }, keep))
  await slowest('an interval half as long, when half expire', () =>
    limiter.setRate({ rate: grants, interval: interval / 4 }, keep).then(() => limiter.tryAcquire()),
  )
  await slowest('giving half of them back', () => limiter.release(grants / 4))
  await slowest('the end', () => limiter.delete())
  await redis.stop()
}

/** From the word of one process to the grant in another. */
async function wakeUp(): Promise<void> {
  progress('waking those who wait')
  const redis = await RedisServer.start()
  const client = redis.client()
  const words = {
    setRate: (limiter: SharedRateLimiter) => limiter.setRate({ rate: 100, interval: '1s' }),
    release: (limiter: SharedRateLimiter) => limiter.release(1),
  }
  for (const [what, say] of Object.entries(words)) {
    const times: number[] = []
    for (let i = 0; i < 20; i++) {
      const name = `${what}-${i}`
      const [one, other] = [client, redis.client()].map(each => new SharedRateLimiter(each, name))
      await one.setRate({ rate: 1, interval: '10s' })
      await one.acquire()
      const waiting = other.acquire()
      await eventually('waits', async () => (await client.zcard(`spillway:{${name}}:rate:line`)) === 1)
      const startedAt = performance.now()
      await say(one)
      await waiting
      times.push(performance.now() - startedAt)
      await Promise.all([one.close(), other.close()])
    }
    const text = `1 per 10 s, ${what} while somebody waits: until it is granted, slowest of 20`
    claim(text, 'at most', 300, Math.max(...times), 'ms')
  }
  await redis.stop()
}

async function scriptCalls(redis: Redis): Promise<number> {
  const stats = await redis.info('commandstats')
  const calls = [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)]
  return calls.reduce((sum, [, count]) => sum + Number(count), 0)
}

for (const [rate, intervalMs, least] of [
  [18, 1000, 98],
  [20, 100, 95],
] as const) {
  await allOfIt(rate, intervalMs, least)
}
await crowd()
await memory()
await wakeUp()
console.log(tableText(claimTable(claims, 'One rate, many processes')))
