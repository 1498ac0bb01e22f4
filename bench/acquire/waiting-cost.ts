import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { eventually } from '../../test/support/eventually.js'
import type { RedisServer } from '../../test/support/redis-server.js'

/** The cost in Redis while this many requests wait for one key: µs of server time, by its own count. */
export interface WaitingCost {
  readonly waiting: number
  /** For each of a thousand who join one after the other. */
  readonly joinUs: number
  /** For each of a thousand who leave in one tick, and the script calls that take it. */
  readonly leaveUs: number
  readonly leaveCalls: number
  /** For each of 50 grants, each after a refund. */
  readonly grantUs: number
  readonly grantCalls: number
  /** The longest call of all, that of 500 joins included, in µs. */
  readonly longestUs: number
}

const SOME = 1000
const GRANTS = 50

export async function waitingCost(server: RedisServer, waiting: number): Promise<WaitingCost> {
  const admin = server.client()
  await admin.flushall('SYNC')
  await admin.config('SET', 'slowlog-log-slower-than', 0)
  await admin.config('SET', 'slowlog-max-len', 100_000)
  const client = server.client()
  const store = new RedisStore(client)
  const limiter = new RateLimiter({ policy: '1/1h', store, deadline: '30s' })
  const others = new RateLimiter({ policy: '1/1h', store: new RedisStore(server.client()), deadline: '30s' })
  await limiter.acquire('k')
  await admin.slowlog('RESET')
  const control = new AbortController()
  const leaving = new AbortController()
  const wait = (by: RateLimiter, signal: AbortSignal) => by.acquire('k', { signal }).catch(() => {})
  // The first grants go to this limiter, and stay.
  const all = Array.from({ length: waiting }, () => wait(limiter, control.signal))
  await inLine(admin, waiting)

  await admin.config('RESETSTAT')
  for (let i = 0; i < SOME; i++) {
    all.push(wait(others, leaving.signal))
    // One ask each.
    if (i % 10 === 9) await new Promise(resolve => setImmediate(resolve))
  }
  await inLine(admin, waiting + SOME)
  const joined = await work(admin)

  await admin.config('RESETSTAT')
  leaving.abort()
  await inLine(admin, waiting)
  const left = await work(admin)

  await admin.config('RESETSTAT')
  for (let i = 0; i < GRANTS; i++) {
    await limiter.refund('k')
    await all[i]
  }
  const granted = await work(admin)
  control.abort()
  await Promise.all(all)
  const log = (await admin.slowlog('GET', -1)) as [number, number, number, string[]][]
  const longestUs = Math.max(...log.filter(([, , , [name]]) => /^eval/i.test(name)).map(([, , us]) => us))
  admin.disconnect()
  return {
    waiting,
    joinUs: joined.us / SOME,
    leaveUs: left.us / SOME,
    leaveCalls: left.calls,
    grantUs: granted.us / GRANTS,
    grantCalls: granted.calls / GRANTS,
    longestUs,
  }
}

async function inLine(admin: Redis, count: number): Promise<void> {
  await eventually(`${count} wait`, async () => (await admin.zcard('spillway:{k}:default:1/sw3600000:line')) === count)
}

async function work(admin: Redis): Promise<{ calls: number; us: number }> {
  const info = await admin.info('commandstats')
  let [calls, us] = [0, 0]
  for (const [, times, micros] of info.matchAll(/^cmdstat_eval(?:sha)?:calls=(\d+),usec=(\d+)/gm)) {
    calls += Number(times)
    us += Number(micros)
  }
  return { calls, us }
}
