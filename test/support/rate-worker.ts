// A process that acquires permits of a shared rate on order, and reports when it gets them: see rate-workers.ts.
import { Redis } from 'ioredis'
import { SharedRateLimiter } from '../../src/waiting/rate/shared-rate-limiter.js'
import { answering } from './answering.js'

export interface Order {
  /** How many to acquire, one permit each. */
  readonly count: number
  /** How many lanes do so at once, each asking again as soon as it has been granted; `count`: all ask at once. */
  readonly lanes: number
  /** When to stop asking, by the clock of the machine, in ms. */
  readonly until?: number
}

export interface Granted {
  /** When each had its permit, by the clock of the machine, in ms. */
  readonly at: readonly number[]
  /** Which question it was that was granted, counted from 0 in the order of asking. */
  readonly asked: readonly number[]
}

const [url, name] = process.argv.slice(2)
const redis = new Redis(url)
const limiter = new SharedRateLimiter(redis, name)

// Connected and with its script loaded: what follows is not about starting up.
await limiter.tryAcquire(0).catch(() => {})
answering(async ({ count, lanes, until = Number.POSITIVE_INFINITY }: Order): Promise<Granted> => {
  const at: number[] = []
  const asked: number[] = []
  let next = 0
  const lane = async () => {
    while (next < count && Date.now() < until) {
      const number = next++
      await limiter.acquire()
      at.push(Date.now())
      asked.push(number)
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  return { at, asked }
})
