import { expect, test } from '@jest/globals'
import { mostInAllTraffic } from '../../../bench/algorithms/all-traffic.js'
import { mostAllowed } from '../../../bench/algorithms/most-allowed.js'
import { parsePolicy } from '../../../src/limiter/core/limit.js'

// The attacks are those of docs/algorithms.md, "The most that gets through".
test.each([
  '2/4ms fixed-window',
  '2/4ms sliding-window',
  '2/4ms sliding-counter',
  '3/6ms token-bucket',
  '3/6ms token-bucket burst=2',
  '3/6ms leaky-bucket',
])('under %s no traffic gets more units than the attacks', policy => {
  const [limit] = parsePolicy(policy)
  expect(mostAllowed(limit, limit.windowMs)).toEqual([mostInAllTraffic(limit)])
})
