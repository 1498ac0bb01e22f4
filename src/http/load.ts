import { PolicyError, shown } from '../limiter/core/errors.js'

/** A measured load. */
export interface Load extends AsyncDisposable {
  /** 0: idle; 1: at the edge of what is healthy; above 1: overloaded. Smoothed. */
  readonly level: number
  /** The source of the level; 'none' below 0.7. */
  readonly reason: 'event-loop' | 'cpu' | 'memory' | 'custom' | 'none'
  /** Stops measuring. The level stays what it was. */
  close(): Promise<void>
}

/** What a limit that follows a load reads of it. */
export type LoadLevel = Pick<Load, 'level' | 'reason'>

/** Below this level there is no reason to report. */
export const CALM_LEVEL = 0.7
/** Above this level less is admitted. */
export const FULL_LEVEL = 1

/** Checks the option `load`. Throws `PolicyError`. */
export function checkLoad(load: LoadLevel, owner: string): void {
  if (typeof load === 'object' && load !== null && typeof load.level === 'number') return
  throw new PolicyError(`${owner}: load ${shown(load)}: expected a load, like { load: processLoad() }`)
}
