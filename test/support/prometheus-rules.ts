import { readFileSync } from 'node:fs'
import type { AlertRule } from '../../src/operating/observing/alerts/alert-rule.js'
import { type AlertCondition, CONDITIONS } from '../../src/operating/observing/alerts/conditions.js'
import { DEFAULT_RULES } from '../../src/operating/observing/alerts/default-rules.js'

/** The alert of ops/alerts.yml for each condition of the default rules. */
const ALERTS: Readonly<Record<(typeof DEFAULT_RULES)[number]['when'], string>> = {
  'denied-share': 'RateLimitManyRefusals',
  'degraded-share': 'RateLimitWithoutStore',
  'breaker-open': 'RateLimitBreakerOpen',
  'queue-lateness': 'RateLimitQueueLate',
  'dead-letters': 'RateLimitDeadLetters',
  'consumer-failed': 'RateLimitConsumersFail',
}

interface PrometheusRule {
  readonly rule: AlertRule
  readonly alert: string
  /** What its expression is compared with, in the unit of the rule. */
  readonly thresholds: readonly number[]
  readonly range: string | undefined
  readonly forText: string | undefined
}

/** The default rules, each with what Prometheus judges by a file like ops/alerts.yml. */
export function rulesInPrometheus(file: string | URL): PrometheusRule[] {
  const text = readFileSync(file, 'utf8')
  return DEFAULT_RULES.map(rule => inPrometheus(rule, text))
}

function inPrometheus(rule: (typeof DEFAULT_RULES)[number], text: string): PrometheusRule {
  const alert = ALERTS[rule.when]
  const [, body = ''] = new RegExp(`- alert: ${alert}\\n([\\s\\S]*?)(?=\\n {6}- alert:|$)`).exec(text) ?? []
  // A guard like "at least one decision in ten seconds" is no threshold of the rule.
  const [expression] = body.split(/\n {10}and |\n {8}(?:for|labels):/)
  const per = CONDITIONS[rule.when as AlertCondition].unit === 'ms' ? 1000 : 1
  return {
    rule,
    alert,
    thresholds: [...expression.matchAll(/> ([\d.]+)/g)].map(([, number]) => Number(number) * per),
    range: /\[(\w+)\]/.exec(expression)?.[1],
    forText: /\n {8}for: (\w+)/.exec(body)?.[1],
  }
}
