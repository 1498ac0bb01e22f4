import type { AlertRule } from './alert-rule.js'

/**
 * The rules of `alerts()` without `rules`, and so those of a `reporter` without `alerts`. The thresholds of
 * ops/alerts.yml and the table in docs/observing.md are these: see scripts/tables.ts and test/docs/ops.test.ts.
 */
export const DEFAULT_RULES = [
  { name: 'refusals', when: 'denied-share', above: 0.1 },
  { name: 'without the store', when: 'degraded-share', above: 0.05 },
  { name: 'breaker', when: 'breaker-open', above: 0 },
  { name: 'late messages', when: 'queue-lateness', above: 30_000 },
  { name: 'dead letters', when: 'dead-letters', above: 0, over: '10m' },
  { name: 'consumers', when: 'consumer-failed', above: 0 },
] as const satisfies readonly AlertRule[]
