import { getOrMake } from '../../core/get-or-make.js'
import type { KeyRow } from '../process-details.js'
import type { KeyRate, KeyView } from '../view.js'
import type { Reports } from './reports.js'

const MOST = 10

interface Caller {
  readonly limiter: string
  readonly key: string
  asked: number
  refused: number
}

/** The busiest and the most refused keys: the reports of all processes, added up. */
export class TopCallers {
  readonly #byLimiter = new Map<string, Map<string, Caller>>()

  constructor(reports: Reports) {
    for (const { keys } of reports.details) for (const [limiter, rows] of keys) this.#add(limiter, rows)
  }

  /** `limiter` undefined: over all that are meant. Shares are of the sum of the limiter's known keys, or of `total` if that is more. */
  most(
    by: 'asked' | 'refused',
    show: (key: string) => KeyView,
    limiter?: string,
    total = 0,
    isMeant = (_limiter: string) => true,
  ): KeyRate[] {
    const all = limiter === undefined ? [...this.#byLimiter.keys()].filter(isMeant) : [limiter]
    const callers = all.flatMap(name => [...(this.#byLimiter.get(name)?.values() ?? [])])
    const sum = Math.max(
      total,
      callers.reduce((sum, caller) => sum + caller[by], 0),
    )
    return callers
      .filter(caller => caller[by] >= 0.005)
      .sort((a, b) => b[by] - a[by])
      .slice(0, MOST)
      .map(caller => ({
        key: show(caller.key),
        limiter: caller.limiter,
        perSecond: caller[by],
        share: sum > 0 ? caller[by] / sum : 0,
      }))
  }

  /** The number of known keys of a limiter. */
  count(limiter: string): number {
    return this.#byLimiter.get(limiter)?.size ?? 0
  }

  find(isMeant: (key: string) => boolean): string | undefined {
    for (const callers of this.#byLimiter.values()) for (const key of callers.keys()) if (isMeant(key)) return key
    return undefined
  }

  #add(limiter: string, rows: readonly KeyRow[]): void {
    const callers = getOrMake(this.#byLimiter, limiter, () => new Map())
    for (const [key, asked, refused] of rows) {
      const known = callers.get(key)
      if (known === undefined) callers.set(key, { limiter, key, asked, refused })
      else {
        known.asked += asked
        known.refused += refused
      }
    }
  }
}
