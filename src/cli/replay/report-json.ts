import { printableJson } from '../../core/printable.js'
import type { Report, TrialResult } from './report.js'

/** One object for one policy, a list for several. */
export function reportAsJson(report: Report): string {
  const objects = report.trials.map((trial, i) => jsonOf(report, trial, i))
  return `${printableJson(objects.length === 1 ? objects[0] : objects)}\n`
}

function jsonOf(report: Report, trial: TrialResult, index: number): object {
  const { timeline, skipped, order } = report
  return {
    policy: trial.text,
    limits: trial.policy,
    by: report.by,
    complete: report.complete,
    requests: report.requests,
    skipped: skipped.lines,
    allowed: report.requests - trial.denied,
    denied: trial.denied,
    keys: report.keys,
    deniedKeys: trial.deniedKeys,
    withoutKey: report.withoutKey,
    withHost: report.withHost,
    from: isoOf(report.from),
    to: isoOf(report.to),
    order,
    firstSkipped: skipped.first ?? null,
    top: trial.top.map(({ key, requests, denied }) => ({ key, requests, denied: denied[0] })),
    timeline: {
      spanSeconds: timeline.spanSeconds,
      rows: timeline.rows.map(({ at, requests, denied }) => ({
        at: isoOf(at),
        requests,
        allowed: requests - denied[index],
        denied: denied[index],
      })),
    },
  }
}

function isoOf(second: number | undefined): string | null {
  return second === undefined ? null : `${new Date(second * 1000).toISOString().slice(0, 19)}Z`
}
