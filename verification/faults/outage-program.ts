// A process through an outage: keeps 200 decisions in flight for the same keys, so that nothing grows with their
// number, and tells how it fares when it is asked.
import { setImmediate } from 'node:timers/promises'
import { RedisStore } from '../../src/index.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { answering } from '../../test/support/answering.js'
import { connected } from '../histories/clients.js'
import { Load } from '../histories/load.js'

export interface Fares {
  /** Bytes in use after a collection. */
  readonly heap: number
  readonly decisions: number
  readonly degraded: number
  readonly slowestMs: number
  /** When it was decided by Redis last, and by the process itself; ms since the epoch. */
  readonly redisAt: number
  readonly aloneAt: number
  /** Rejections that nobody handled. */
  readonly unhandled: number
}

const [client, port] = process.argv.slice(2)
const servers = [{ host: '127.0.0.1', port: Number(port) }]
const place = { topology: 'single', servers, sentinels: [], doors: {} } as const
const limiter = new RateLimiter({
  policy: { quota: 1_000_000_000, window: '1h', algorithm: 'fixed-window' },
  store: new RedisStore(await connected({ client, place })),
  observer: {},
})
const fares = { decisions: 0, degraded: 0, slowestMs: 0, redisAt: 0, aloneAt: 0, unhandled: 0 }
process.on('unhandledRejection', () => fares.unhandled++)
new Load(async () => {
  const askedAt = performance.now()
  const { degraded } = await limiter.consume(String(fares.decisions % 25))
  fares.decisions++
  if (degraded) fares.degraded++
  fares[degraded ? 'aloneAt' : 'redisAt'] = Date.now()
  fares.slowestMs = Math.max(fares.slowestMs, performance.now() - askedAt)
})
answering(async (): Promise<Fares> => {
  globalThis.gc?.()
  await setImmediate()
  globalThis.gc?.()
  return { ...fares, heap: process.memoryUsage().heapUsed }
})
