import { type Arrival, LENGTH_MS, type Story, WINDOW_MS } from './burst.js'
import { element, line, shown, strokes, text } from './svg.js'

export const WIDTH = 860

const GAP = 4
const MARK = 15
/** From the line of requests to the line on which they leave. */
export const DEPARTURE = 62

/** Where time lies on the paper. */
export class Scale {
  constructor(
    readonly left: number,
    readonly right: number,
    readonly lengthMs = LENGTH_MS,
  ) {}

  x(atMs: number): number {
    return this.left + (atMs * (this.right - this.left)) / this.lengthMs
  }
}

/**
 * Requests along a line: what was allowed stands on it, what was denied hangs below, so that colour is not needed to
 * tell.
 */
export function requestMarks(scale: Scale, arrivals: readonly Arrival[], y: number): string[] {
  const up = arrivals.filter(({ allowed }) => allowed).map(({ at }) => at)
  const down = arrivals.filter(({ allowed }) => !allowed).map(({ at }) => at)
  return [
    line(scale.left, y, scale.right, y, { class: 'rule' }),
    marks(scale, up, y, 'allowed'),
    element('path', {
      class: 'mark denied',
      d: strokes(down.map(at => [scale.x(at), y + GAP, scale.x(at), y + MARK])),
    }),
  ]
}

/** When those that are allowed leave, on a line of their own, each joined to its arrival. */
export function departures(scale: Scale, { arrivals }: Story, y: number): string[] {
  const leaving = arrivals.filter(({ allowed }) => allowed)
  const to = y + DEPARTURE
  return [
    element('path', {
      class: 'leaves thin',
      d: strokes(leaving.map(({ at, leavesAt }) => [scale.x(at), y + MARK + 4, scale.x(leavesAt), to - MARK - 3])),
    }),
    line(scale.left, to, scale.right, to, { class: 'rule' }),
    marks(
      scale,
      leaving.map(({ leavesAt }) => leavesAt),
      to,
      'leaves',
    ),
  ]
}

/** Strokes that stand on a line. */
export function marks(scale: Scale, times: readonly number[], y: number, kind: string): string {
  const d = strokes(times.map(at => [scale.x(at), y - GAP, scale.x(at), y - MARK]))
  return element('path', { class: `mark ${kind}`, d })
}

export function timeAxis(scale: Scale, top: number, bottom: number, everyMs = 5_000): string[] {
  const ticks = Array.from({ length: scale.lengthMs / everyMs + 1 }, (_, i) => everyMs * i)
  return [
    element('path', { class: 'grid', d: strokes(ticks.map(at => [scale.x(at), top, scale.x(at), bottom])) }),
    ...ticks.map(at => text(scale.x(at), bottom + 16, `${at / 1000} s`, { class: 'small middle' })),
  ]
}

/** A brace under the busiest window, with words in its middle. */
export function brace(scale: Scale, { busiest, limit }: Story, y: number): string[] {
  const [from, to] = [scale.x(busiest.from), scale.x(busiest.from + WINDOW_MS)]
  const verb = limit.algorithm === 'leaky-bucket' ? 'leave' : 'allowed'
  return [
    element('path', { class: 'rule', d: `M${shown(from)} ${y - 5}V${y}H${shown(to)}V${y - 5}` }),
    text((from + to) / 2, y + 15, `${busiest.count} ${verb} in these ${WINDOW_MS / 1000} s`, { class: 'ink middle' }),
  ]
}
