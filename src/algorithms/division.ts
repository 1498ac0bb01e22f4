// A float quotient may round up to a whole number that it never reaches; the remainder is exact for all integers below 2⁵³.

/** ⌊a / b⌋, exact for integers 0 ≤ a, 0 < b. */
export function floorDiv(a: number, b: number): number {
  return (a - (a % b)) / b
}

/** ⌈a / b⌉, exact for integers 0 ≤ a, 0 < b. */
export function ceilDiv(a: number, b: number): number {
  const rest = a % b
  return (a - rest) / b + (rest > 0 ? 1 : 0)
}
