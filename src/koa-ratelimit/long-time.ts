const UNITS = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1000],
] as const

/** A time in words, rounded, as koa-ratelimit's default message has it: '2 minutes', '1 second', '300 ms'. */
export function longTime(ms: number): string {
  for (const [name, unitMs] of UNITS) {
    if (ms >= unitMs) return `${Math.round(ms / unitMs)} ${name}${ms >= unitMs * 1.5 ? 's' : ''}`
  }
  return `${ms} ms`
}
