import { CALM_LEVEL, FULL_LEVEL, type Load } from './load.js'

const HALVE_EVERY_MS = 500
const RAISE_EVERY_MS = 1000
const RAISE_BY = 0.1

/**
 * A factor that follows a load: while the level is above 1 it is halved twice a second, down to `min`; below 0.7 it rises by 0.1 a second, up to 1;
 * between the two it stays. So it falls fast and rises slowly, and does not swing about the edge.
 */
export class LoadFactor {
  value = 1
  #changedAt = Number.NEGATIVE_INFINITY

  constructor(
    readonly load: Load,
    readonly min: number,
  ) {}

  /** Looks at the load. True if the factor has changed. */
  update(): boolean {
    const now = performance.now()
    const { level } = this.load
    const before = this.value
    const sinceMs = now - this.#changedAt
    if (level > FULL_LEVEL && sinceMs >= HALVE_EVERY_MS) this.value = Math.max(this.min, this.value / 2)
    else if (level < CALM_LEVEL && sinceMs >= RAISE_EVERY_MS) {
      // Sums of 0.1 are not exact.
      this.value = Math.min(1, Math.round((this.value + RAISE_BY) * 1e6) / 1e6)
    }
    if (this.value === before) return false
    this.#changedAt = now
    return true
  }
}
