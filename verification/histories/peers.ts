// What peers promise by their own documents: the checker judges them by these rules alone.
import type { Limit, Subject } from './history.js'

export interface Peer {
  readonly packages: readonly string[]
  readonly subjects: readonly Subject[]
  /** The rules of the checker that its documents promise. */
  readonly rules: readonly string[]
  readonly client?: 'upstash'
}

/** A command of a client that reconnects may arrive whenever the server is back. */
const LATE_MS = 20_000
const limit = (algorithm: Limit['algorithm'], quota: number, windowMs: number, burst = quota): Limit => ({
  algorithm,
  quota,
  windowMs,
  burst,
})
const limiter = (name: string, only: Limit, deadlineMs = Number.POSITIVE_INFINITY): Subject => ({
  name,
  kind: 'limiter',
  limits: [only],
  deadlineMs,
  lateMs: LATE_MS,
})
const semaphore = (name: string): Subject => ({
  name,
  kind: 'semaphore',
  permits: 3,
  deadlineMs: Number.POSITIVE_INFINITY,
  holdMs: 3000,
})

export const PEERS: Readonly<Record<string, Peer>> = {
  'rate-limit-redis': {
    packages: ['rate-limit-redis', 'express-rate-limit'],
    subjects: [limiter('http', limit('fixed-window', 20, 1000))],
    rules: ['over the limit', 'refused in vain', 'a refused request was handled', 'an answer without a handler'],
  },
  'rate-limiter-flexible': {
    packages: ['rate-limiter-flexible'],
    subjects: [limiter('fixed', limit('fixed-window', 20, 1000))],
    rules: ['over the limit', 'refused in vain', 'granted sooner than said'],
  },
  '@upstash/ratelimit': {
    packages: ['@upstash/ratelimit', '@upstash/redis'],
    client: 'upstash',
    subjects: [
      // Its windows are cells of the clock: any span meets one more of them.
      limiter('fixed', limit('sliding-counter', 20, 1000), 5000),
      limiter('sliding', limit('sliding-counter', 20, 1000), 5000),
      limiter('bucket', limit('token-bucket', 20, 1000, 30), 5000),
    ],
    // Its bucket is filled once in an interval, so what it refuses is not judged.
    rules: ['over the limit', 'answered too late'],
  },
  'redis-semaphore': {
    packages: ['redis-semaphore'],
    subjects: [semaphore('permits')],
    rules: ['over the permits'],
  },
  bottleneck: {
    packages: ['bottleneck'],
    subjects: [limiter('reservoir', limit('sliding-counter', 50, 5000)), semaphore('concurrent')],
    rules: ['over the limit', 'over the permits'],
  },
  bullmq: {
    packages: ['bullmq'],
    subjects: [
      limiter('jobs', limit('fixed-window', 20, 1000)),
      { name: 'queue', kind: 'queue', deadlineMs: Number.POSITIVE_INFINITY, holdMs: 3000 },
    ],
    rules: ['over the limit', 'a lost message', 'delivered after its acknowledgement', 'two handlers at once'],
  },
}
