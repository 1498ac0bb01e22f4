import type { Decision, DecisionSource } from '../core/decision.js'
import { getOrMake } from '../core/get-or-make.js'
import { LabelValues } from './label-values.js'

const OUTCOMES = ['allowed', 'refused', 'shadow'] as const

/** What one series counts. */
interface DecisionLabels {
  readonly limiter: string
  readonly limit: string
  readonly outcome: (typeof OUTCOMES)[number]
  readonly source: DecisionSource
}

/** One series: `count` is how many there were. */
export interface DecisionCell {
  readonly labels: DecisionLabels
  count: number
}

/** The cells of one limit of a limiter, by source, then by outcome. */
type LimitCells = Map<DecisionSource, readonly DecisionCell[]>

/**
 * Decisions by limiter, limit, outcome and source. They are counted here and passed on at collection: the counters of metrics
 * libraries look up their labels at each step, which would cost as much as a decision in memory.
 */
export class DecisionCounts {
  readonly cells: DecisionCell[] = []
  readonly #limiters = new Map<string, Map<string, LimitCells>>()
  readonly #limiterNames = new LabelValues()
  readonly #limitNames = new LabelValues()

  count({ limit, source, shadow, allowed }: Decision, limiter: string): void {
    const outcome = shadow ? 2 : allowed ? 0 : 1
    const cell = this.#limiters.get(limiter)?.get(limit.name)?.get(source)?.[outcome]
    if (cell !== undefined) cell.count++
    else this.#cellOf(this.#limiterNames.of(limiter), this.#limitNames.of(limit.name), source, outcome).count++
  }

  #cellOf(limiter: string, limit: string, source: DecisionSource, outcome: number): DecisionCell {
    const limits = getOrMake(this.#limiters, limiter, () => new Map<string, LimitCells>())
    const sources = getOrMake(limits, limit, (): LimitCells => new Map())
    // All outcomes at once: alerts see a first refusal only if its series was there before.
    const outcomes = getOrMake(sources, source, () => {
      const cells = OUTCOMES.map(outcome => ({ labels: { limiter, limit, outcome, source }, count: 0 }))
      this.cells.push(...cells)
      return cells
    })
    return outcomes[outcome]
  }
}
