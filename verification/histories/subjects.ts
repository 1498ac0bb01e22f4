// What the processes of a run use, and what is promised of it.
import type { Limit, Subject } from './history.js'
import type { Use } from './use.js'

const limit = (algorithm: Limit['algorithm'], quota: number, windowMs: number, burst = quota): Limit => ({
  algorithm,
  quota,
  windowMs,
  burst,
})
const limiter = (name: string, ...limits: Limit[]): Subject => ({ name, kind: 'limiter', limits, deadlineMs: 50 })
const sliding = (name: string, quota = 20) => limiter(name, limit('sliding-window', quota, 1000))
const use = (kind: Use['kind'], subject: Subject, pauseMs: number): Use => ({
  kind,
  subject,
  pauseMs,
  keys: kind === 'decide' ? 2 : 1,
  costs: kind === 'decide' ? 3 : 1,
  atOnce: 1,
  changes: [],
  changeRarely: 1,
  denyCache: true,
})
const live = sliding('live', 10)
const liveLimits = [10, 20, 40].map(quota => [limit('sliding-window', quota, 1000)])
const changes = ['block', 'unblock', 'reset', 'charge', 'refund'] as const

export const RUN_USES: readonly Use[] = [
  use('decide', sliding('sliding'), 80),
  use('decide', limiter('fixed', limit('fixed-window', 20, 1000)), 80),
  use('decide', limiter('counter', limit('sliding-counter', 20, 1000)), 80),
  use('decide', limiter('bucket', limit('token-bucket', 20, 1000, 30)), 80),
  use('decide', limiter('leaky', limit('leaky-bucket', 20, 1000, 10)), 80),
  use('decide', limiter('both', limit('sliding-window', 10, 500), limit('token-bucket', 50, 5000, 30)), 80),
  { ...use('decide', sliding('settled'), 80), changes: ['settle'] },
  { ...use('decide', sliding('changed'), 60), costs: 2, changes, changeRarely: 5 },
  { ...use('decide', live, 80), costs: 1, live: { limits: liveLimits, pauseMs: 20_000 } },
  { ...use('decide', { ...sliding('leased', 400), leased: true }, 6), keys: 1 },
  use('acquire', sliding('turns', 10), 200),
  use('rate', { ...sliding('rate', 10), kind: 'rate' }, 200),
  use('semaphore', { name: 'permits', kind: 'semaphore', permits: 3, deadlineMs: 50, holdMs: 3000 }, 0),
  use('queue', { name: 'queue', kind: 'queue', deadlineMs: 50, holdMs: 3000 }, 200),
]

/** Requests to an Express application of each process. */
export const HTTP = sliding('http')

export const RUN_SUBJECTS: readonly Subject[] = [...RUN_USES.map(({ subject }) => subject), HTTP]

/** Ms of a clock that all processes of a machine share, and that nobody sets. */
export const now = (): number => Number(process.hrtime.bigint()) / 1e6
