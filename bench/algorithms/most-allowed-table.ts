import { type Limit, parsePolicy } from '../../src/limiter/core/limit.js'
import type { Table } from '../contest/figures.js'
import { mostAllowed as most } from './most-allowed.js'

const POLICIES = [
  '100/1m fixed-window',
  '100/1m sliding-window',
  '100/1m sliding-counter',
  '100/1m token-bucket',
  '100/1m token-bucket burst=20',
  '100/1m token-bucket burst=1',
  '100/1m leaky-bucket',
  '100/1m leaky-bucket burst=20',
]

/**
 * The most units in any window and in any tenth of one, as text. For a leaky bucket also those that leave, because
 * these reach the backend.
 */
export function mostAllowed(limit: Limit): [inWindow: string, inTenth: string] {
  const [inWindow, inTenth] = most(limit, limit.windowMs, limit.windowMs / 10).map(({ allowed, leaving }) =>
    limit.algorithm === 'leaky-bucket' ? `${allowed}, leaving ${leaving}` : String(allowed),
  )
  return [inWindow, inTenth]
}

/** Deterministic: `npm run tables` writes these lines into docs/algorithms.md. */
export function mostAllowedTable(): Table {
  const rows = POLICIES.map(policy => [policy, ...mostAllowed(parsePolicy(policy)[0])])
  return { caption: 'Most allowed', head: ['Limit', 'in any window', 'in any tenth of it'], rows }
}
