// A float quotient may round up to a whole number that it does not reach, so the result is checked by multiplication, which is exact
// below 2⁵³. (The remainder operator would be exact too, but is ten times slower.)

/** ⌊a / b⌋, exact for integers 0 ≤ a ≤ 2⁵³, 0 < b. */
export function floorDiv(a: number, b: number): number {
  const quotient = Math.floor(a / b)
  return quotient * b > a ? quotient - 1 : quotient
}

/** ⌈a / b⌉, exact for integers 0 ≤ a ≤ 2⁵³, 0 < b. */
export function ceilDiv(a: number, b: number): number {
  const quotient = floorDiv(a, b)
  return quotient * b < a ? quotient + 1 : quotient
}
