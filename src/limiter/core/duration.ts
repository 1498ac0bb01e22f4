import { PolicyError, shown } from './errors.js'

/**
 * Whole milliseconds, or text: '250ms', '1s', '1m', '1h', '1d', '1h30m', or a word: 'second', 'minute', 'hour', 'day',
 * 'week'. Must be > 0 and ≤ Number.MAX_SAFE_INTEGER ms. Any `string` compiles, as texts come from settings.
 */
export type Duration = number | string

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
  ['ms', 1],
] as const

/** The durations that have a name, also with an s. */
export const NAMED_DURATIONS: ReadonlyMap<string, number> = new Map([
  ['second', 1000],
  ['minute', 60_000],
  ['hour', 3_600_000],
  ['day', 86_400_000],
  ['week', 604_800_000],
])

const TEXT = /^(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?$/

/**
 * A duration in whole milliseconds.
 *
 * Units in text go from large to small, each at most once: d, h, m, s, ms; or the text is a word, like 'minute'.
 * Throws `PolicyError` for 0, for fractions, for text without a unit, and for more than `Number.MAX_SAFE_INTEGER` ms
 * (285 000 years).
 */
export function parseDuration(input: Duration): number {
  return parse(input, '', '')
}

/** As `parseDuration`, for options where 0 means "do not wait" or "at once". `what` names the option in the error. */
export function parseDurationOrZero(input: Duration, what: string): number {
  return input === 0 ? 0 : parse(input, `${what}: `, '0, ')
}

/** As `parseDuration`; the error names the option `what`. */
export function parseOption(input: Duration, what: string): number {
  return parse(input, `${what}: `, '')
}

/** Moments in Redis are stored with room for so long. */
const LONGEST_STORED_MS = 3650 * 86_400_000

/** As `parseOption`, for durations whose end is stored in Redis: at most ten years. `example` is a usual value. */
export function parseStoredOption(input: Duration, what: string, example: string): number {
  const ms = parseOption(input, what)
  if (ms <= LONGEST_STORED_MS) return ms
  throw new PolicyError(`${what}: ${shown(input)}: expected at most ten years, like '${example}'`)
}

/** The shortest text of a duration, like '1h30m'; `parseDuration` reads it back. */
export function formatDuration(ms: number): string {
  let rest = ms
  let text = ''
  for (const [unit, size] of UNITS) {
    const count = Math.floor(rest / size)
    if (count > 0) text += `${count}${unit}`
    rest -= count * size
  }
  return text || '0ms'
}

function parse(input: Duration, prefix: string, zero: string): number {
  const ms = millisecondsOf(input)
  if (Number.isSafeInteger(ms) && ms > 0) return ms
  throw new PolicyError(
    `${prefix}duration ${shown(input)}: expected ${zero}whole milliseconds > 0, or text like "250ms", "1s", ` +
      '"1m", "1h", "1d", "1h30m"',
  )
}

function millisecondsOf(input: unknown): number {
  if (typeof input === 'number') return input
  if (typeof input !== 'string') return Number.NaN
  const named = NAMED_DURATIONS.get(input.replace(/s$/, ''))
  if (named !== undefined) return named
  const match = TEXT.exec(input)
  if (!match || input === '') return Number.NaN
  return UNITS.reduce((sum, [, size], i) => sum + Number(match[i + 1] ?? 0) * size, 0)
}
