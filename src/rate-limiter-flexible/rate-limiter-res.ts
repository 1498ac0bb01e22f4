/** The result of a limiter for a key. A refusal is thrown. */
export class RateLimiterRes {
  /** Points left in the duration that runs, ≥ 0. */
  readonly remainingPoints: number
  /** In how many ms the duration or the block ends; -1: never. */
  readonly msBeforeNext: number
  /** Points consumed in the duration that runs, also by refused calls. */
  readonly consumedPoints: number
  /** True for the call that began the duration. */
  readonly isFirstInDuration: boolean

  constructor(remainingPoints = 0, msBeforeNext = 0, consumedPoints = 0, isFirstInDuration = false) {
    this.remainingPoints = remainingPoints
    this.msBeforeNext = msBeforeNext
    this.consumedPoints = consumedPoints
    this.isFirstInDuration = isFirstInDuration
  }

  /** The four numbers as JSON. */
  toString(): string {
    return JSON.stringify(this.toJSON())
  }

  /** A plain object of the four. */
  toJSON(): Pick<RateLimiterRes, 'remainingPoints' | 'msBeforeNext' | 'consumedPoints' | 'isFirstInDuration'> {
    const { remainingPoints, msBeforeNext, consumedPoints, isFirstInDuration } = this
    return { remainingPoints, msBeforeNext, consumedPoints, isFirstInDuration }
  }
}

/** True for a result of ours or of rate-limiter-flexible: the two may work together. */
export function isRes(value: unknown): value is RateLimiterRes {
  if (value instanceof RateLimiterRes) return true
  return !(value instanceof Error) && typeof (value as RateLimiterRes | undefined)?.msBeforeNext === 'number'
}
