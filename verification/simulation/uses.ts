// What a schedule uses, and what is promised of it: drawn from its seed.

import type { Random } from '../../test/support/random.js'
import type { Limit } from '../histories/history.js'
import type { Use } from '../histories/use.js'

const ALGORITHMS: ReadonlyArray<Limit['algorithm']> = [
  'fixed-window',
  'sliding-window',
  'sliding-counter',
  'token-bucket',
  'leaky-bucket',
]

function limit(random: Random, algorithm = random.pick(ALGORITHMS)): Limit {
  const quota = random.integer(1, 20)
  const isBucket = algorithm === 'token-bucket' || algorithm === 'leaky-bucket'
  const windowMs = random.pick([100, 250, 1000, 1000, 2500])
  return { algorithm, quota, windowMs, burst: isBucket ? random.integer(1, 2 * quota) : quota }
}

/** Units that are lost are still missing when all have ended. */
const LONG_MS = 60_000
const longer = (random: Random, one: Limit): Limit => {
  return random.integer(1, 3) === 1 ? { ...one, quota: 20, burst: 20, windowMs: LONG_MS } : one
}

/** A kind of use by its name, drawn from a seed. */
export const USES: Readonly<Record<string, (random: Random, name: string) => Use>> = {
  decisions: (random, name) => {
    const [first, second] = [limit(random), limit(random)]
    const two = random.integer(1, 3) === 1 && first.windowMs !== second.windowMs
    return decide(random, name, two ? [first, second] : [first])
  },
  changes: (random, name) => {
    const all = ['settle', 'refund', 'charge', 'block', 'unblock', 'reset'] as const
    return { ...decide(random, name, [limit(random)]), changes: all.filter(() => random.integer(1, 3) === 1) }
  },
  settlements: (random, name) => ({
    ...decide(random, name, [longer(random, limit(random, random.pick(['fixed-window', random.pick(ALGORITHMS)])))]),
    changes: ['settle'],
    changeRarely: 2,
  }),
  leases: (random, name) => {
    const use = decide(random, name, [{ ...limit(random), quota: 60, burst: 60 }])
    return { ...use, subject: { ...use.subject, leased: true }, keys: 1, pauseMs: 40 }
  },
  live: (random, name) => {
    const first = limit(random)
    const next = () =>
      [{ ...first, quota: random.integer(1, 20), burst: first.burst }].map(one =>
        isBucket(one) ? one : { ...one, burst: one.quota },
      )
    return { ...decide(random, name, [first]), live: { limits: [next(), next()], pauseMs: 3000 } }
  },
  turns: (random, name) => ({
    ...decide(random, name, [longer(random, limit(random))]),
    kind: 'acquire',
    pauseMs: 200,
  }),
  rate: (random, name) => {
    const shared = longer(random, limit(random, 'sliding-window'))
    return {
      ...decide(random, name, [shared]),
      kind: 'rate',
      subject: { name, kind: 'rate', limits: [shared], deadlineMs: 50 },
      pauseMs: 200,
    }
  },
  semaphore: (random, name) => {
    const permits = random.integer(1, 4)
    const subject = {
      name,
      kind: 'semaphore',
      permits,
      deadlineMs: 50,
      holdMs: random.pick([1000, 3000, LONG_MS]),
    } as const
    return { ...decide(random, name, []), kind: 'semaphore', subject, pauseMs: 100 }
  },
  queue: (random, name) => {
    const subject = { name, kind: 'queue', deadlineMs: 50, holdMs: random.pick([1000, 3000]) } as const
    return { ...decide(random, name, []), kind: 'queue', subject, pauseMs: 200 }
  },
}

const isBucket = ({ algorithm }: Limit) => algorithm === 'token-bucket' || algorithm === 'leaky-bucket'

function decide(random: Random, name: string, limits: readonly Limit[]): Use {
  const least = Math.min(...limits.map(({ quota, burst }) => Math.min(quota, burst)))
  return {
    kind: 'decide',
    subject: {
      name,
      kind: 'limiter',
      limits,
      deadlineMs: random.pick([20, 50, 50, 200]),
      localShare: random.pick([1, 0.5]),
    },
    pauseMs: random.pick([50, 100, 300]),
    keys: random.integer(1, 2),
    costs: Math.min(random.integer(1, 3), least),
    atOnce: random.pick([1, 1, 1, 4]),
    changes: [],
    changeRarely: 8,
    denyCache: random.integer(1, 3) > 1,
  }
}
