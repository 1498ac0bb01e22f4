import { type Limit, parsePolicy } from '../../../src/limiter/core/limit.js'

/** The policies of one busy key each. */
export const AUDITED: Readonly<Record<string, readonly Limit[]>> = {
  sliding: parsePolicy('50/1s'),
  fixed: parsePolicy('50/1s fixed-window'),
  bucket: parsePolicy('50/1s token-bucket burst=20'),
  three: parsePolicy(['20/1s', '150/10s', '5000/10m']),
}
/** Requests of each policy in flight, in each process. */
export const LOOPS = 3
/** Of keys that are used for some ms only. */
export const [NEW_LIMIT] = parsePolicy('3/10m')
/** Of decisions over several rows: the same limit, so that every row is used by any of them. */
export const GROUP_LIMITS = Array.from({ length: 3 }, () => NEW_LIMIT)
/** Longer than any stop: nothing may be given up. */
export const DEADLINE_MS = 3000
