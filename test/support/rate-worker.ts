// A process that acquires permits of a shared rate when it is told to, and tells when it has them. Forked by rate-workers.ts.
import { Redis } from 'ioredis'
import { SharedRateLimiter } from '../../src/shared/shared-rate-limiter.js'

export interface Order {
  /** How many to ask for at once, one permit each. */
  readonly count: number
}

export interface Granted {
  /** When each of them had its permit, by the clock of the machine, in ms; in the order in which they asked. */
  readonly at: readonly number[]
}

const [url, name] = process.argv.slice(2)
const redis = new Redis(url)
const limiter = new SharedRateLimiter(redis, name)

process.on('message', async ({ count }: Order) => {
  const at = await Promise.all(Array.from({ length: count }, () => limiter.acquire().then(() => Date.now())))
  process.send?.({ at } satisfies Granted)
})
process.once('disconnect', () => process.exit(0))
// Connected and with its script loaded: what follows is not about starting up.
await limiter.tryAcquire(0).catch(() => {})
process.send?.('ready')
