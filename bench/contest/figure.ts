import type { Median } from './median.js'

/** A number with about three digits that say something: 1 234 567, 12.3, 0.123. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return String(value)
  const size = Math.abs(value)
  if (size >= 100) return Math.round(value).toLocaleString('en-US').replaceAll(',', ' ')
  return value.toFixed(size >= 10 ? 1 : size >= 1 ? 2 : size === 0 ? 0 : 3)
}

/** `1.23 (1.19–1.27)`: the median and its quartiles. */
export function spread({ value, low, high }: Median): string {
  return low === high ? figure(value) : `${figure(value)} (${figure(low)}–${figure(high)})`
}
