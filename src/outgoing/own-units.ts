import { Places } from './account.js'
import type { Resource } from './departure.js'
import { Spent } from './spent.js'

/** How many moments a process tells of one budget. */
const MOST_MOMENTS = 100

/**
 * What the calls of one asker count of a budget, or of the places of a partner. Each ask tells Redis all of it, in
 * place of what the ask before has told: so it does not matter which asks and answers were lost, what has left while
 * Redis was away, and whether Redis has lost its data.
 */
export class OwnUnits {
  readonly spent = new Spent()
  #version = 0
  #told = 0

  constructor(
    readonly key: string,
    readonly resource: Resource,
  ) {}

  /** Redis counts otherwise. */
  changed(): void {
    this.#version++
  }

  get isTold(): boolean {
    return this.#told === this.#version
  }

  get version(): number {
    return this.#version
  }

  /** Redis was told what this version counted. */
  told(version: number): void {
    this.#told = Math.max(this.#told, version)
  }

  /**
   * Units and how many ms after `base` they end, by the server's clock, which is `offset` ahead of `performance.now()`.
   * What is held ends when this process has been dead for so long that its lease is over, and after an interval.
   */
  row(now: number, leaseUntil: number, base: number, offset: number): string {
    const { resource, spent } = this
    spent.update(now)
    const heldUntil = resource instanceof Places ? leaseUntil : resource.endAfter(leaseUntil)
    const moments = new Map<number, number>()
    for (const [end, units] of spent) {
      const at = Math.ceil((end === Number.POSITIVE_INFINITY ? heldUntil : end) + offset - ROUNDING_MS)
      moments.set(at, (moments.get(at) ?? 0) + units)
    }
    let row = ''
    for (const [at, units] of fewer(moments)) if (units > 0 && at > base) row += `${at - base} ${units} `
    return row
  }
}

/** What the sum of two moments is too large by, at most, because it is rounded in binary. */
const ROUNDING_MS = 0.001

/** No more moments than are told: later ones for those between. */
function fewer(moments: ReadonlyMap<number, number>): ReadonlyMap<number, number> {
  if (moments.size <= MOST_MOMENTS) return moments
  const all = [...moments.keys()]
  // At whole steps, so that the moments of one ask are those of the next.
  const step = 2 ** Math.ceil(Math.log2((Math.max(...all) - Math.min(...all)) / (MOST_MOMENTS - 2)))
  const sums = new Map<number, number>()
  for (const [at, units] of moments) {
    const end = Math.ceil(at / step) * step
    sums.set(end, (sums.get(end) ?? 0) + units)
  }
  return sums
}
