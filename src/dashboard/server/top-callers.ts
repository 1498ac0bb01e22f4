import { getOrMake } from '../../core/get-or-make.js'
import type { KeyRow, ProcessDetails } from '../process-details.js'
import type { KeyRate, KeyView } from '../view.js'

const MOST = 10

type By = 'asked' | 'refused'
/** Whether a limiter is shown. */
type IsMeant = (limiter: string) => boolean

interface Caller {
  readonly limiter: string
  readonly key: string
  asked: number
  refused: number
}

/** The first of a limiter's keys, and what all of them do. */
interface Ranked {
  readonly sum: number
  readonly top: readonly Caller[]
}

/** The busiest and the most refused keys: the reports of all processes, added up. */
export class TopCallers {
  readonly #byLimiter = new Map<string, Map<string, Caller>>()
  readonly #ranked = new Map<string, Ranked>()
  readonly #refs = new Map<string, string>()
  readonly #unseen = this.#keys()

  constructor(details: ReadonlyMap<string, ProcessDetails>) {
    for (const { keys } of details.values()) for (const [limiter, rows] of keys) this.#add(limiter, rows)
  }

  /**
   * `of`: a limiter, or which limiters are meant; undefined: all. Shares are of the sum of all these keys, or of `total` if that is more.
   */
  most(by: By, show: (key: string) => KeyView, of?: string | IsMeant, total = 0): KeyRate[] {
    const { sum, top } = this.#ranking(by, of)
    const most = Math.max(total, sum)
    return top.map(({ key, limiter, ...caller }) => ({
      key: show(key),
      limiter,
      perSecond: caller[by],
      share: most > 0 ? caller[by] / most : 0,
    }))
  }

  /** The first of `most`; it is not shown yet. */
  loudest(by: By, limiter: string, total: number): { key: string; share: number } | undefined {
    let sum = 0
    let first: Caller | undefined
    for (const caller of this.#byLimiter.get(limiter)?.values() ?? []) {
      sum += caller[by]
      if (caller[by] > (first?.[by] ?? 0)) first = caller
    }
    return first && { key: first.key, share: first[by] / Math.max(total, sum) }
  }

  #ranking(by: By, of: string | IsMeant | undefined): Ranked {
    // What is meant may be another set each time.
    if (typeof of === 'function') return rank(by, this.#of(of))
    const all = of === undefined ? this.#byLimiter.values() : [this.#byLimiter.get(of) ?? new Map()]
    return getOrMake(this.#ranked, `${by} ${of ?? ''}`, () => rank(by, all))
  }

  *#of(isMeant: IsMeant): Generator<ReadonlyMap<string, Caller>, void> {
    for (const [limiter, callers] of this.#byLimiter) if (isMeant(limiter)) yield callers
  }

  /** The number of known keys of a limiter. */
  count(limiter: string): number {
    return this.#byLimiter.get(limiter)?.size ?? 0
  }

  /** The key that a ref stands for. What has been looked at once is remembered. */
  keyOf(ref: string, refOf: (key: string) => string): string | undefined {
    for (let known = this.#refs.get(ref); ; ) {
      if (known !== undefined) return known
      const next = this.#unseen.next()
      if (next.done) return undefined
      const found = refOf(next.value)
      this.#refs.set(found, next.value)
      if (found === ref) known = next.value
    }
  }

  /** Whether a limiter's reports name a key. */
  has(limiter: string, key: string): boolean {
    return this.#byLimiter.get(limiter)?.has(key) === true
  }

  *#keys(): Generator<string, void> {
    for (const callers of this.#byLimiter.values()) yield* callers.keys()
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

function rank(by: By, all: Iterable<ReadonlyMap<string, Caller>>): Ranked {
  let sum = 0
  let top: Caller[] = []
  let least = 0.005
  for (const callers of all) {
    for (const caller of callers.values()) {
      sum += caller[by]
      if (caller[by] < least) continue
      top.push(caller)
      if (top.length < 4 * MOST) continue
      top = top.sort((a, b) => b[by] - a[by]).slice(0, MOST)
      least = top[MOST - 1][by]
    }
  }
  return { sum, top: top.sort((a, b) => b[by] - a[by]).slice(0, MOST) }
}
