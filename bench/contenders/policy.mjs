import { PLENTY, WINDOW_MS } from './traffic.mjs'

/**
 * Our policy of an algorithm at a quota. Plenty for a bucket means a large burst: with a high rate it would regain what
 * was spent at once, its keys would be as if never used, and nothing would be left to measure.
 *
 * @param {number} quota
 * @param {any} algorithm
 * @param {number} [unitMs] How long a bucket of plenty takes to regain a unit, ms. A minute is longer than one of many
 *   keys waits for the next turn of its contender. One key that is always busy needs no such time: its bucket is full
 *   within days, as the buckets of services are, and not within centuries.
 */
export function policyOf(quota, algorithm, unitMs = 60_000) {
  const bucket = algorithm === 'token-bucket' || algorithm === 'leaky-bucket'
  if (bucket && quota === PLENTY) return { quota: 10, burst: PLENTY, window: 10 * unitMs, algorithm }
  return { quota, window: WINDOW_MS, algorithm }
}
