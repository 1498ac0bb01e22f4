import type { Median } from './median.js'

/** A promise with a number in it, and what was measured. */
export interface Claim {
  readonly text: string
  readonly bound: 'at least' | 'at most' | 'exactly'
  readonly target: number
  readonly measured: Median
  /** What the number counts; a ratio has none. */
  readonly unit?: string
}

export function holds({ bound, target, measured: { value } }: Claim): boolean {
  if (bound === 'exactly') return value === target
  return bound === 'at least' ? value >= target : value <= target
}

/** A figure that was measured once, or comes out the same every time. */
export function single(value: number): Median {
  return { value, low: value, high: value }
}
