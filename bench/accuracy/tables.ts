import { formatDuration, parseDuration } from '../../src/limiter/core/duration.js'
import { tableText } from '../contest/figures.js'
import { poissonTrace } from './poisson-trace.js'
import { type Comparison, compare, type Request, sumOf, wrongShare } from './wrong-decisions.js'

const POLICIES = [
  { quota: 10, windowMs: parseDuration('1m') },
  { quota: 20, windowMs: parseDuration('1m') },
  { quota: 100, windowMs: parseDuration('1h') },
] as const
/** The average demand of a key, in quotas a window. */
const LOADS = [0.25, 0.5, 0.75, 1, 1.5, 3]
const REQUESTS = 20_000
/**
 * The borders of cells fall on a log by chance, so a log is compared this many times, each time shifted by such a part
 * of a window.
 */
const SHIFTS = 60

const HEADS = ['denied by the exact', 'wrongly allowed', 'wrongly denied', 'wrong in all', 'allowed, against exact']

/** Limits under Poisson traces of every load. Deterministic. */
export function poissonComparisons() {
  return POLICIES.flatMap(({ quota, windowMs }) =>
    LOADS.map(load => {
      const trace = poissonTrace(load * quota, windowMs, REQUESTS)
      return { limit: nameOf(quota, windowMs), load, comparison: compare(trace, quota, windowMs) }
    }),
  )
}

type Comparisons = ReturnType<typeof poissonComparisons>

/** Deterministic: `npm run tables` writes these lines into docs/algorithms.md. */
export function poissonTable(comparisons: Comparisons): string {
  const rows = comparisons.map(({ limit, load, comparison }) => [limit, `${load} × quota`, ...cells(comparison)])
  return tableText({ caption: 'Poisson traces', head: ['Limit', 'asked for', ...HEADS], rows })
}

/** The least and the largest share of wrong decisions in the table above. */
export function wrongOnPoisson(comparisons: Comparisons): string {
  const shares = comparisons.map(({ comparison }) => wrongShare(comparison))
  return `${percent(Math.min(...shares))} to ${percent(Math.max(...shares))}`
}

/** The same on a log: the mean over all shifts of its clock, the worst of them, and the log as it is. */
export function logTable(caption: string, trace: readonly Request[]): string {
  const rows = POLICIES.map(({ quota, windowMs }) => {
    const all = Array.from({ length: SHIFTS }, (_, i) => {
      const shift = Math.floor((i * windowMs) / SHIFTS)
      return compare(
        trace.map(({ at, key }) => ({ at: at + shift, key })),
        quota,
        windowMs,
      )
    })
    const worst = Math.max(...all.map(wrongShare))
    return [nameOf(quota, windowMs), ...cells(sumOf(all)), percent(worst), percent(wrongShare(all[0]))]
  })
  return tableText({ caption, head: ['Limit', ...HEADS, 'worst shift', 'as recorded'], rows })
}

function cells(comparison: Comparison): string[] {
  const { requests, denied, wronglyAllowed, wronglyDenied, allowed } = comparison
  return [
    percent(denied / requests),
    percent(wronglyAllowed / requests),
    percent(wronglyDenied / requests),
    percent(wrongShare(comparison)),
    signed(allowed / (requests - denied) - 1),
  ]
}

/** With as many digits as mean something. */
function percent(share: number): string {
  return share === 0 ? '0 %' : `${(100 * share).toFixed(share < 0.01 ? 2 : 1)} %`
}

function signed(share: number): string {
  const text = (100 * Math.abs(share)).toFixed(1)
  const sign = Number(text) === 0 ? '±' : share < 0 ? '−' : '+'
  return `${sign}${text} %`
}

function nameOf(quota: number, windowMs: number): string {
  return `${quota}/${formatDuration(windowMs)}`
}
