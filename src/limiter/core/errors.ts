/**
 * The base of all errors of this package. An error is a fault, never a refusal. `code` is stable; match on it rather
 * than on the text.
 */
export class SpillwayError extends Error {
  /** The kind of error; stable. */
  readonly code: string = 'SPILLWAY'

  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.name = new.target.name
  }
}

/** An invalid policy, duration or option. Thrown when the object is built. */
export class PolicyError extends SpillwayError {
  /** Always `SPILLWAY_POLICY`. */
  override readonly code = 'SPILLWAY_POLICY'
}

/** A cost that is not an integer ≥ 0, or, for calls that wait, exceeds what can ever fit. Nothing was spent. */
export class CostError extends SpillwayError {
  /** Always `SPILLWAY_COST`. */
  override readonly code = 'SPILLWAY_COST'
}

/** The wait would have ended after the given timeout. Nothing was spent. */
export class TimeoutError extends SpillwayError {
  /** Always `SPILLWAY_TIMEOUT`. */
  override readonly code = 'SPILLWAY_TIMEOUT'

  /** How many ms the wait would have taken, if known. */
  readonly retryAfterMs: number | undefined

  constructor(message: string, options?: { cause?: unknown; retryAfterMs?: number }) {
    super(message, options)
    this.retryAfterMs = options?.retryAfterMs
  }
}

/** Redis failed or did not answer in time; `cause` has the client's error. */
export class StoreError extends SpillwayError {
  /** Always `SPILLWAY_STORE`. */
  override readonly code = 'SPILLWAY_STORE'

  /**
   * false: what was asked was certainly not carried out, so a settlement, refund or charge can be asked for again.
   * Absent if that is not known: the store may have carried it out and its answer was lost.
   */
  declare readonly settled?: false

  constructor(message: string, options?: { cause?: unknown; settled?: false }) {
    super(message, options)
    if (options?.settled === false) this.settled = false
  }
}

/** A shared object was used before its rate or its permits were set. */
export class NotInitializedError extends SpillwayError {
  /** Always `SPILLWAY_NOT_INITIALIZED`. */
  override readonly code = 'SPILLWAY_NOT_INITIALIZED'
}

/** A lease ended before it was released: it expired, was deleted, or was released by force. */
export class LeaseLostError extends SpillwayError {
  /** Always `SPILLWAY_LEASE_LOST`. */
  override readonly code = 'SPILLWAY_LEASE_LOST'
}

/**
 * A delivery was acknowledged, put back, rejected or extended after it stopped belonging to this process. Nothing
 * changed.
 */
export class StaleDeliveryError extends SpillwayError {
  /** Always `SPILLWAY_STALE_DELIVERY`. */
  override readonly code = 'SPILLWAY_STALE_DELIVERY'
}

const LONGEST_SHOWN = 80

/** A wrong value as error messages show it: shortened, without control characters. */
export function shown(value: unknown): string {
  if (typeof value === 'string') return quoted(value)
  if (typeof value === 'bigint') return clipped(`${value}n`)
  if (typeof value === 'function') return 'a function'
  if (typeof value !== 'object' || value === null) return clipped(String(value))
  if (Array.isArray(value)) return `an array of ${value.length}`
  const name = value.constructor?.name
  if (typeof name === 'string' && name !== '' && name !== 'Object') return clipped(`an object of class ${name}`)
  return clipped(`an object { ${Object.keys(value).slice(0, 5).join(', ')} }`)
}

/**
 * As `shown`, for what is not of our class of that name: it may be of the same class in another copy of the package.
 */
export function shownOther(value: unknown, className: string): string {
  const isNamesake = typeof value === 'object' && value?.constructor?.name === className
  return isNamesake ? `${shown(value)} of another copy of spillway (npm ls spillway lists them)` : shown(value)
}

function quoted(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text).replace(/[\p{Cc}\p{Cs}]/gu, escaped)
}

function clipped(text: string): string {
  const clean = text.slice(0, LONGEST_SHOWN).replace(/[\p{Cc}\p{Cs}]/gu, escaped)
  return text.length > LONGEST_SHOWN ? `${clean}…` : clean
}

function escaped(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
}

/** Throws `CostError` unless the cost is an integer ≥ 0. */
export function checkCost(cost: number): void {
  if (!isCost(cost)) throw wrongCost(cost)
}

export function isCost(cost: number): boolean {
  return Number.isSafeInteger(cost) && cost >= 0
}

/** A cost that a function of the service gave. Throws `CostError`, in which `what` says which function. */
export function costOf(cost: unknown, what: string): number {
  if (isCost(cost as number)) return cost as number
  throw wrongCost(cost, what)
}

function wrongCost(cost: unknown, what = 'cost'): CostError {
  return new CostError(`${what} ${shown(cost)}: expected an integer ≥ 0, like 1`)
}
