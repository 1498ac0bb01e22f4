import { type Duration, parseOption } from '../core/duration.js'
import { PolicyError, shown } from '../core/errors.js'

/** A measured load. */
export interface Load {
  /** 0: idle; 1: at the edge of what is healthy; above 1: overloaded. Smoothed. */
  readonly level: number
  /** The source of the level; 'none' below 0.7. */
  readonly reason: 'event-loop' | 'cpu' | 'memory' | 'custom' | 'none'
  /** Stops measuring. The level stays what it was. */
  close(): void
}

/** Below this level there is no reason to report. */
export const CALM_LEVEL = 0.7
/** Above this level less is admitted. */
export const FULL_LEVEL = 1

/** The weight of a new measurement: a rise counts faster than a fall. */
const RISE_WEIGHT = 0.6
const FALL_WEIGHT = 0.3

const LEAST_EVERY_MS = 100
const MOST_EVERY_MS = 1000
const DEFAULT_EVERY_MS = 500

/** A level that follows measurements smoothly. */
export class SmoothLevel {
  level = 0

  add(measured: number): void {
    const weight = measured > this.level ? RISE_WEIGHT : FALL_WEIGHT
    this.level += (measured - this.level) * weight
  }
}

/** Checks the option `every`: 100 ms to 1 s, default 500 ms. Throws `PolicyError`. */
export function parseEvery(every: Duration | undefined, owner: string): number {
  const ms = every === undefined ? DEFAULT_EVERY_MS : parseOption(every, `${owner}: every`)
  if (ms >= LEAST_EVERY_MS && ms <= MOST_EVERY_MS) return ms
  throw new PolicyError(`${owner}: every ${shown(every)}: expected 100 ms to 1 s, like '500ms'`)
}

/** Checks the option `load`. Throws `PolicyError`. */
export function checkLoad(load: Load, owner: string): void {
  if (typeof load === 'object' && load !== null && typeof load.level === 'number') return
  throw new PolicyError(`${owner}: load ${shown(load)}: expected a load, like { load: processLoad() }`)
}
