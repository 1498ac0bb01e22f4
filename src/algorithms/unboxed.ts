/**
 * The same number. The difference of two moments, or a number out of a flat array, comes with a box of its own, though it be small and
 * whole. V8 keeps the box: once one verdict has one, all have, and each decision a copy of it, which is a third of its garbage.
 */
export function unboxed(value: number): number {
  const whole = value | 0
  return whole === value ? whole : value
}
