import { PLENTY, WINDOW_MS } from './traffic.mjs'

/**
 * Our policy of an algorithm at a quota. Plenty for a bucket means a large burst: with a high rate it would regain what was spent
 * at once, its keys would be as if never used, and nothing would be left to measure. A unit takes a minute, which is longer than a key waits for the next
 * turn of its contender.
 *
 * @param {number} quota
 * @param {any} algorithm
 */
export function policyOf(quota, algorithm) {
  const bucket = algorithm === 'token-bucket' || algorithm === 'leaky-bucket'
  if (bucket && quota === PLENTY) return { quota: 10, burst: PLENTY, window: WINDOW_MS, algorithm }
  return { quota, window: WINDOW_MS, algorithm }
}
