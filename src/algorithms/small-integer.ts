/**
 * Returns the same number; a small integer is then stored without a heap box. The difference of two moments, or a number from a flat array, has a box
 * even if it is a small integer. Once one verdict holds a boxed number, V8 boxes that field in all verdicts: a third of the garbage of each decision.
 */
export function toSmallInteger(value: number): number {
  const whole = value | 0
  return whole === value ? whole : large(value)
}

// A call, because V8 compiles no code for a call that has not happened yet: in most processes the result is then known to be a small integer.
function large(value: number): number {
  return value
}
