// What the processes of a run use, and what is promised of it.
import type { Limit, Subject } from './history.js'

const limit = (algorithm: Limit['algorithm'], quota: number, windowMs: number, burst = quota): Limit => ({
  algorithm,
  quota,
  windowMs,
  burst,
})
const limiter = (name: string, ...limits: Limit[]): Subject => ({ name, kind: 'limiter', limits, deadlineMs: 50 })

export const RUN_SUBJECTS: readonly Subject[] = [
  limiter('sliding', limit('sliding-window', 20, 1000)),
  limiter('fixed', limit('fixed-window', 20, 1000)),
  limiter('counter', limit('sliding-counter', 20, 1000)),
  limiter('bucket', limit('token-bucket', 20, 1000, 30)),
  limiter('leaky', limit('leaky-bucket', 20, 1000, 10)),
  limiter('both', limit('sliding-window', 10, 500), limit('token-bucket', 50, 5000, 30)),
  limiter('settled', limit('sliding-window', 20, 1000)),
  limiter('changed', limit('sliding-window', 20, 1000)),
  limiter('live', limit('sliding-window', 10, 1000)),
  { ...limiter('leased', limit('sliding-window', 400, 1000)), leased: true },
  limiter('turns', limit('sliding-window', 10, 1000)),
  limiter('http', limit('sliding-window', 20, 1000)),
  { name: 'rate', kind: 'rate', limits: [limit('sliding-window', 10, 1000)], deadlineMs: 50 },
  { name: 'permits', kind: 'semaphore', permits: 3, deadlineMs: 50, holdMs: 3000 },
  { name: 'queue', kind: 'queue', deadlineMs: 50, holdMs: 3000 },
]

/** Of a limit, as a policy is written. */
export function policyOf({ limits = [] }: Subject) {
  return limits.map(({ algorithm, quota, windowMs, burst }) => {
    const bucket = algorithm === 'token-bucket' || algorithm === 'leaky-bucket'
    return { quota, window: windowMs, algorithm, ...(bucket && { burst }) }
  })
}

/** Ms of a clock that all processes of a machine share, and that nobody sets. */
export const now = (): number => Number(process.hrtime.bigint()) / 1e6
