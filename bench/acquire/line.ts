import { setTimeout as pause } from 'node:timers/promises'
import { RedisStore } from '../../src/index.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import type { RedisServer } from '../../test/support/redis-server.js'
import { readWork } from '../contest/redis-meter.js'

const WAITERS = 101
/** The waiter that gives up, and the moment. */
const QUITTER = 50
const QUITS_AFTER_MS = 500
/** So many answers on a connection show that a request which came to it before stands in the line. */
const PEEKS = 2

export interface Line {
  readonly name: string
  readonly policy: string
  /** Connections, which the waiters use in turns. */
  readonly connections: number
}

export const LINES: readonly Line[] = [
  { name: 'sliding-window', policy: '10/1s', connections: 1 },
  { name: 'token-bucket, two connections', policy: '10/1s token-bucket burst=1', connections: 2 },
  { name: 'fixed-window', policy: '10/1s fixed-window', connections: 1 },
  { name: 'two limits', policy: '10/1s; 1000/1h', connections: 1 },
]

export interface Stood {
  readonly name: string
  readonly grants: number
  readonly inOrder: boolean
  readonly calls: number
  readonly lastMs: number
}

/** Makes all of them wait in line, and counts the commands to Redis. */
export async function stand(server: RedisServer, { name, policy, connections }: Line): Promise<Stood> {
  const meter = server.client()
  const scriptCalls = async () => {
    const { calls } = await readWork(meter)
    return calls('evalsha') + calls('eval')
  }
  await meter.flushall('SYNC')
  const limiters = Array.from(
    { length: connections },
    () => new RateLimiter({ policy, store: new RedisStore(server.client()), deadline: '5s' }),
  )
  for (const limiter of limiters) await limiter.acquire('to connect and learn the scripts')
  const before = await scriptCalls()

  const control = new AbortController()
  const order: number[] = []
  const startedAt = performance.now()
  let lastMs = 0
  const waiting: Promise<void>[] = []
  for (let i = 0; i < WAITERS; i++) {
    const granted = limiters[i % connections].acquire('k', i === QUITTER ? { signal: control.signal } : {})
    waiting.push(
      granted.then(
        () => {
          order.push(i)
          lastMs = performance.now() - startedAt
        },
        error => {
          if (error !== control.signal.reason) throw error
        },
      ),
    )
    // Requests over one connection keep their order. Over two connections, each must wait for the one before: once for
    // the answer of an ask that was in flight when it came, and once for that of its own.
    if (connections > 1) for (let n = 0; n < PEEKS; n++) await limiters[i % connections].peek('another', 0)
  }
  await pause(QUITS_AFTER_MS)
  control.abort(new Error('gives up'))
  await Promise.all(waiting)
  const peeks = connections > 1 ? PEEKS * WAITERS : 0
  const calls = (await scriptCalls()) - before - peeks
  const inOrder = order.every((who, i) => i === 0 || order[i - 1] < who)
  meter.disconnect()
  return { name, grants: order.length, inOrder, calls, lastMs }
}
