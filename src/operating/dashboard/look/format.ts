/** Numbers, times and limits as people read them. No DOM. Part of the shared look, see tokens.css. */

/** Between thousands: narrow, and does not break. */
const THIN = '\u202f'
const UNITS = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1000],
  ['millisecond', 1],
] as const
const SHORT = { day: 'd', hour: 'h', minute: 'min', second: 's', millisecond: 'ms' } as const

/** A limit, as far as words need it. */
export interface LimitFacts {
  readonly quota: number
  readonly windowMs: number
  readonly burst: number
  readonly algorithm: string
  readonly calendar?: { readonly window: string; readonly timezone: string }
}

/** A whole number: '1 204'; from ten million on '12.3 million'. */
export function count(value: number): string {
  if (!Number.isFinite(value)) return '∞'
  if (Math.abs(value) >= 1e9) return `${grouped(significant(value / 1e9))} billion`
  if (Math.abs(value) >= 1e7) return `${grouped(significant(value / 1e6))} million`
  return grouped(String(Math.round(value)))
}

/** A rate or another measured number: at most three significant digits. */
export function rate(value: number): string {
  if (!Number.isFinite(value)) return '∞'
  if (value === 0) return '0'
  if (value < 0.005) return '<0.01'
  if (value >= 1e9) return `${grouped(significant(value / 1e9))} billion`
  if (value >= 1e7) return `${grouped(significant(value / 1e6))} million`
  return grouped(significant(value))
}

/** A share from 0 to 1: '38 %', '2.2 %', '<0.1 %'. */
export function percent(share: number): string {
  const value = share * 100
  if (!(value > 0)) return `0${THIN}%`
  if (value < 0.1) return `<0.1${THIN}%`
  if (value > 99.9 && value < 100) return `>99.9${THIN}%`
  return `${value < 10 ? trimmed(value.toFixed(1)) : Math.round(value)}${THIN}%`
}

/** A span of time in one unit, or two where that helps: '42 s', '6 min', '1 h 20 min', '3 d'. */
export function span(ms: number): string {
  if (!Number.isFinite(ms)) return 'never'
  if (ms < 1000) return ms < 1 && ms > 0 ? `${trimmed(ms.toFixed(1))} ms` : `${Math.round(ms)} ms`
  const seconds = Math.round(ms / 1000)
  if (seconds < 60) return `${seconds} s`
  if (seconds < 3600)
    return seconds < 600 && seconds % 60 > 0
      ? `${Math.floor(seconds / 60)} min ${seconds % 60} s`
      : `${Math.round(seconds / 60)} min`
  const minutes = Math.round(seconds / 60)
  if (minutes < 1440)
    return minutes % 60 > 0 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${minutes / 60} h`
  return `${count(Math.round(minutes / 1440))} d`
}

/** How long something takes in ms, as short as it can be said: '0.4 ms', '38 ms'. */
export function latency(ms: number): string {
  return ms < 1000 ? `${rate(ms)} ms` : span(ms)
}

/** Whether a moment is one that a date can have; a block may last longer. */
export function isDate(at: number): boolean {
  return !Number.isNaN(new Date(at).getTime())
}

/** A time of day: '14:02'. */
export function clock(at: number, seconds = false): string {
  if (!isDate(at)) return 'never'
  const date = new Date(at)
  const parts = [date.getHours(), date.getMinutes(), ...(seconds ? [date.getSeconds()] : [])]
  return parts.map(part => String(part).padStart(2, '0')).join(':')
}

/** A full moment: '2026-11-22 14:02:31'. */
export function moment(at: number): string {
  if (!isDate(at)) return 'never'
  const date = new Date(at)
  const day = [date.getFullYear(), date.getMonth() + 1, date.getDate()].map(part => String(part).padStart(2, '0'))
  return `${day.join('-')} ${clock(at, true)}`
}

/** A moment as it is said now: '14:02' today, else with its day. */
export function when(at: number, now: number): string {
  return new Date(at).toDateString() === new Date(now).toDateString() ? clock(at) : moment(at).slice(0, 16)
}

/** A window in words: 'minute', '15 minutes', '90 seconds'. */
export function windowWords(ms: number): string {
  for (const [unit, size] of UNITS) {
    if (ms % size === 0) return ms === size ? unit : `${grouped(String(ms / size))} ${unit}s`
  }
  return `${grouped(String(ms))} milliseconds`
}

/** As `windowWords`, shorter: 'minute', '15 min'. */
export function shortWindow(ms: number): string {
  for (const [unit, size] of UNITS) {
    if (ms % size === 0) return ms === size ? unit : `${grouped(String(ms / size))} ${SHORT[unit]}`
  }
  return `${grouped(String(ms))} ms`
}

/** A limit for a table: '5 per 15 minutes', '20 per second, burst 40', '10 000 per month, Europe/Berlin'. */
export function limitWords(limit: LimitFacts): string {
  const { quota, windowMs, burst, algorithm, calendar } = limit
  if (calendar !== undefined) {
    const zone = calendar.timezone === 'UTC' ? '' : `, ${calendar.timezone}`
    return `${count(quota)} per calendar ${calendar.window}${zone}`
  }
  const words = `${count(quota)} per ${windowWords(windowMs)}`
  if (algorithm === 'token-bucket') return `${words}, burst ${count(burst)}`
  if (algorithm === 'leaky-bucket') return `${words}, smoothed, ${count(burst)} may wait`
  return words
}

/** What a limit promises, for a sentence: '100 in any minute', '20 per second, at most 40 at once'. */
function promiseWords(limit: LimitFacts): string {
  const { quota, windowMs, burst, algorithm, calendar } = limit
  const window = windowWords(windowMs)
  if (calendar !== undefined) return limitWords(limit)
  if (quota === 0) return 'nothing at all'
  if (algorithm === 'sliding-window') return `${count(quota)} in any ${window}`
  if (algorithm === 'sliding-counter') return `about ${count(quota)} in any ${window}`
  if (algorithm === 'fixed-window') return `${count(quota)} per ${window}, counted from the first request`
  if (algorithm === 'token-bucket') return `${count(quota)} per ${window}, at most ${count(burst)} at once`
  return `${count(quota)} per ${window}, evenly, at most ${count(burst)} waiting`
}

/** A policy as it is promised: '100 in any minute and 1 000 in any hour'. */
export function policyWords(policy: readonly LimitFacts[]): string {
  return policy.map(promiseWords).join(' and ')
}

/** '1 process', '14 processes'. */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`
}

function significant(value: number): string {
  if (value >= 100) return String(Number(value.toPrecision(3)))
  return trimmed(value.toFixed(value >= 10 ? 1 : 2))
}

function trimmed(text: string): string {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text
}

/** The digits of a number in threes: '1 204.5'. */
export function grouped(text: string, separator = THIN): string {
  const [whole, part] = text.split('.')
  const threes = whole.replace(/\B(?=(\d{3})+$)/g, separator)
  return part === undefined ? threes : `${threes}.${part}`
}
