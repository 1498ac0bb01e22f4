import { CALENDAR_WINDOWS, Calendar, type CalendarRule, type CalendarWindow, isCalendarWindow } from './calendar.js'
import { type Duration, formatDuration, NAMED_DURATIONS, parseOption } from './duration.js'
import { PolicyError, shown } from './errors.js'

/**
 * How a limit counts.
 *
 * - `sliding-window` (default): exact log, at most `quota` in any span of `window`.
 * - `fixed-window`: a counter that starts at a key's first request; allows up to twice `quota` across a boundary.
 * - `sliding-counter`: two counters, weighted; constant state, approximate.
 * - `token-bucket`: refills `quota` per window, holds `burst`.
 * - `leaky-bucket`: shapes traffic; an allowed request waits `delayMs`, so that requests leave window/quota apart.
 */
export type AlgorithmName = 'fixed-window' | 'sliding-window' | 'sliding-counter' | 'token-bucket' | 'leaky-bucket'

/** The traits of an algorithm that a policy needs. */
interface AlgorithmTraits {
  /** Whether its limits may set a burst that differs from the quota. */
  readonly hasBurst: boolean
  /** Whether it multiplies units by ms: products above 2⁵³ would be rounded, so policies above that are rejected. */
  readonly multiplies: boolean
  /** Whether what is left is kept as a share of the limit, so that counts go on when the window changes too. */
  readonly keepsShare: boolean
}

const ALGORITHMS: Readonly<Record<AlgorithmName, AlgorithmTraits>> = {
  'fixed-window': { hasBurst: false, multiplies: false, keepsShare: false },
  'sliding-window': { hasBurst: false, multiplies: false, keepsShare: false },
  'sliding-counter': { hasBurst: false, multiplies: true, keepsShare: false },
  'token-bucket': { hasBurst: true, multiplies: true, keepsShare: true },
  'leaky-bucket': { hasBurst: true, multiplies: true, keepsShare: true },
}

export const ALGORITHM_NAMES = Object.freeze(Object.keys(ALGORITHMS)) as readonly AlgorithmName[]

export function hasBurst(algorithm: AlgorithmName): boolean {
  return ALGORITHMS[algorithm].hasBurst
}

/** One rule: `quota` units per `window`, counted separately for each key. */
export interface LimitOptions {
  /** Units per window; integer ≥ 0, at most 2^53 - 1024. 0 refuses everything. */
  quota: number
  /**
   * Length of the window, more than 0, at most 10 000 years: whole ms, text like '1m' or '1h30m', or a word: 'second',
   * 'minute', 'hour', 'day', 'week'. 'day' is any span of 24 h; a day of the calendar is `calendar: 'day'`.
   */
  window: Duration
  /** Default 'sliding-window'. */
  algorithm?: AlgorithmName
  /**
   * token-bucket: most units that can be spent at one instant; leaky-bucket: places, including the request that leaves
   * at once. Integer ≥ 1, default `quota`.
   */
  burst?: number
  /**
   * Default "100-per-1m". Names the limit in headers and metrics: printable ASCII, at most 64 characters. Counts belong
   * to a name that is given, and stay when the quota changes.
   */
  name?: string
}

/**
 * One rule in windows of the calendar, like `quota` units per month, counted separately for each key. The algorithm is
 * a fixed window.
 */
export interface CalendarLimitOptions {
  /** Units per window; integer ≥ 0. 0 refuses everything. */
  quota: number
  /**
   * 'hour', 'day', 'week' (from Monday), 'month' or 'year'; in place of `window`. The store's clock decides when a
   * window begins.
   */
  calendar: CalendarWindow
  /** A name of the IANA time zone database, like 'Europe/Berlin'; default 'UTC'. */
  timezone?: string
  /**
   * Default "500-per-calendar-day". Names the limit in headers and metrics: printable ASCII, at most 64 characters.
   * Counts belong to a name that is given, and stay when the quota changes.
   */
  name?: string
}

/**
 * '100/1m' · '100/minute' · '100/1m token-bucket' · '100/1m token-bucket burst=20' · '500/day calendar' · '500/day
 * calendar tz=Europe/Berlin' · several joined with ';' · objects · a list of either. '100/hour' is '100/1h': any span
 * of an hour. Windows of the calendar are asked for by `calendar` or `tz=`.
 */
export type PolicyInput =
  | string
  | LimitOptions
  | CalendarLimitOptions
  | ReadonlyArray<string | LimitOptions | CalendarLimitOptions>

/** A checked, frozen rule. Durations in ms. */
export interface Limit {
  /** Unique in its policy; stands in headers and metrics. */
  readonly name: string
  /**
   * Only if no name was given: the quota after which it is named. Its counts then belong to the limiter's name, or, if
   * that is 'default', to this quota.
   */
  readonly namedAfter?: number
  /** Units per window; 0 refuses every cost but 0. */
  readonly quota: number
  /** Length of the window in ms; for a calendar window the longest possible one in its time zone. */
  readonly windowMs: number
  /** Most units that can be spent at one instant; equals the quota for algorithms without a burst. */
  readonly burst: number
  /** The algorithm. */
  readonly algorithm: AlgorithmName
  /** Only for calendar windows: the kind of window and the time zone. */
  readonly calendar?: CalendarRule
}

/** Limits that are decided together: all of them spend or none; names are unique. */
export type Policy = readonly Limit[]

const TEXT = /^(\d+)\/([0-9a-z]+)$/
const TEXT_FORM =
  'expected "<quota>/<duration>", like "100/1m" (ms, s, m, h, d), "100/hour" (second, minute, hour, day, week) ' +
  'or "500/day calendar" (hour, day, week, month, year)'
/** How other texts name a window, and what is written here. */
const MEANT_WINDOWS: ReadonlyArray<[RegExp, string]> = [
  [/^(ms|msecs?|millis|milliseconds?)$/, 'ms'],
  [/^(s|secs?|seconds?)$/, 's'],
  [/^(m|mins?|minutes?)$/, 'm'],
  [/^(h|hrs?|hours?)$/, 'h'],
  [/^(d|days?)$/, 'd'],
  [/^(w|wks?|weeks?)$/, 'w'],
  [/^(mon|mo|months?|monthly)$/, 'month'],
  [/^(y|yrs?|years?|yearly|annum)$/, 'year'],
]
const OPTION_NAMES = new Set(['quota', 'window', 'algorithm', 'burst', 'name', 'calendar', 'timezone'])
/** The algorithm of calendar windows. */
const CALENDAR_ALGORITHM = 'fixed-window'

/**
 * Reads a policy. `algorithm` applies to limits that name none, default 'sliding-window'. Throws `PolicyError`, which
 * says what was given and what was expected.
 */
export function parsePolicy(input: PolicyInput, algorithm?: AlgorithmName): Policy {
  const inputs = Array.isArray(input) ? input : [input]
  const limits = inputs.flatMap(entry =>
    typeof entry === 'string' ? parseText(entry, algorithm) : [parseLimit(entry, algorithm)],
  )
  if (limits.length === 0) throw new PolicyError('policy: given no limit, expected at least one, like "100/1m"')
  const names = new Set<string>()
  for (const { name } of limits) {
    if (names.has(name)) {
      throw new PolicyError(
        `policy: two limits are named ${shown(name)}: give one a name of its own, like { quota: 100, window: ` +
          '"1m", name: "burst" }',
      )
    }
    names.add(name)
  }
  return Object.freeze(limits)
}

/** One limit from its options. */
export function parseLimit(
  options: LimitOptions | CalendarLimitOptions,
  byDefault: AlgorithmName = 'sliding-window',
): Limit {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new PolicyError(
      `policy: given ${shown(options)}, expected text like "100/1m" or { quota: 100, window: "1m" }`,
    )
  }
  for (const option of Object.keys(options)) {
    if (!OPTION_NAMES.has(option) && option !== 'namedAfter') {
      throw new PolicyError(
        `limit: unknown option ${shown(option)}, expected ${[...OPTION_NAMES].join(', ')}, like { quota: 100, ` +
          'window: "1m" }',
      )
    }
  }
  // Without what it inherits: policies of functions are compared by their JSON, which does not have that either.
  const own: AnyLimitOptions = { ...options }
  const { quota, burst, ...others } = own
  const { name: given, namedAfter = given ? undefined : quota } = others
  if (!Number.isSafeInteger(quota) || quota < 0) {
    throw new PolicyError(`limit: quota ${shown(quota)}: expected an integer ≥ 0 (0 refuses everything), like 100`)
  }
  if (quota > LARGEST_QUOTA) {
    throw new PolicyError(`limit: quota ${shown(quota)}: expected at most ${LARGEST_QUOTA} (2^53 - 1024), like 100`)
  }
  const calendar = parseCalendar(own)
  const { algorithm = calendar === undefined ? byDefault : CALENDAR_ALGORITHM } = others
  if (calendar !== undefined && algorithm !== CALENDAR_ALGORITHM) {
    throw new PolicyError(
      `limit: calendar ${shown(calendar.window)} with ${shown(algorithm)}: expected ${CALENDAR_ALGORITHM}, or ` +
        "a window like '1d' in place of calendar",
    )
  }
  const windowMs = calendar?.longestMs ?? parseWindow(others.window as Duration)
  if (!ALGORITHM_NAMES.includes(algorithm)) {
    throw new PolicyError(`limit: unknown algorithm ${shown(algorithm)}, expected one of ${ALGORITHM_NAMES.join(', ')}`)
  }
  const name = parseName(given === undefined ? nameOf(quota, windowMs, calendar) : given)
  const limit = {
    name,
    ...(namedAfter !== undefined && { namedAfter }),
    quota,
    windowMs,
    burst: parseBurst(burst, quota, algorithm),
    algorithm,
  }
  refuseInexact(limit)
  if (calendar === undefined) return Object.freeze(limit)
  const { timezone: zone } = calendar
  return Object.freeze({ ...limit, calendar: Object.freeze({ window: calendar.window, timezone: zone }) })
}

/** The name of a limit that was given none. */
function nameOf(quota: number, windowMs: number, calendar: Calendar | undefined): string {
  return `${quota}-per-${calendar ? `calendar-${calendar.window}` : formatDuration(windowMs)}`
}

/** The calendar that options ask for; undefined: their window is a duration. */
function parseCalendar({ window, calendar, timezone }: AnyLimitOptions): Calendar | undefined {
  if (calendar === undefined && timezone === undefined) return undefined
  const like = 'like { quota: 500, calendar: "day", timezone: "Europe/Berlin" } or "500/day calendar tz=Europe/Berlin"'
  const given = [
    calendar !== undefined && `calendar ${shown(calendar)}`,
    timezone !== undefined && `timezone ${shown(timezone)}`,
  ]
  const asked = given.filter(Boolean).join(' and ')
  if (window !== undefined) {
    throw new PolicyError(`limit: window ${shown(window)} with ${asked}: expected calendar in place of window, ${like}`)
  }
  if (!isCalendarWindow(calendar)) {
    throw new PolicyError(
      `limit: ${asked}: expected a window of the calendar (${CALENDAR_WINDOWS.join(', ')}), ${like}`,
    )
  }
  return Calendar.of(calendar, timezone ?? 'UTC')
}

/** The length of a window that is a duration, or a word for one. */
function parseWindow(window: Duration): number {
  const word = singular(window)
  if (isCalendarWindow(word) && !NAMED_DURATIONS.has(word)) {
    throw new PolicyError(
      `limit: window ${shown(window)}: a ${word} has no one length: expected calendar: "${word}" in place of ` +
        `window, or window: "${DAYS_OF[word]}"`,
    )
  }
  return parseSpan(window, 'limit: window')
}

/** A duration that a limit can count over, in ms. `what` names the option in the `PolicyError`. */
export function parseSpan(given: Duration, what: string): number {
  const ms = parseOption(given, what)
  if (ms <= LONGEST_WINDOW_MS) return ms
  throw new PolicyError(`${what} ${shown(given)}: expected at most 3650000d (10 000 years), like "1d"`)
}

const DAYS_OF: Readonly<Record<string, string>> = { month: '30d', year: '365d' }

/** 'hour' of 'hours'; anything else as it is. */
function singular(window: unknown): unknown {
  const word = typeof window === 'string' ? window.replace(/s$/, '') : window
  return NAMED_DURATIONS.has(word as string) || isCalendarWindow(word) ? word : window
}

/** Up to here, sums of a count and a few units are exact. */
export const LARGEST_QUOTA = 2 ** 53 - 1024
export const LONGEST_WINDOW_MS = 3_650_000 * 86_400_000

/** A checked limit as the options that make it again: whether its name was given is not forgotten. */
export function optionsOf({
  name,
  namedAfter,
  quota,
  windowMs,
  burst,
  algorithm,
  calendar,
}: Limit): LimitOptions | CalendarLimitOptions {
  const names = { name, ...(namedAfter !== undefined && { namedAfter }) }
  if (calendar !== undefined) return { ...names, quota, calendar: calendar.window, timezone: calendar.timezone }
  return { ...names, quota, window: windowMs, algorithm, ...(hasBurst(algorithm) && { burst }) }
}

/** The most units that can ever be spent at one instant. */
export function maxCostOf({ quota, burst }: Limit): number {
  return quota === 0 ? 0 : burst
}

/**
 * What a limit counts over, as text. Any change of it starts counts anew; a bucket scales what it has counted instead,
 * so it has none.
 */
export function countedSpan({ algorithm, windowMs, calendar }: Limit): string {
  if (ALGORITHMS[algorithm].keepsShare) return ''
  // A time zone is the same in capitals.
  return calendar === undefined ? String(windowMs) : `-${calendar.window}-${calendar.timezone.toLowerCase()}`
}

/** How long a limit that is spent to its end takes to be as if never used, in ms; 0 at a quota of 0. */
export function fillMsOf({ quota, windowMs, burst }: Limit): number {
  return quota === 0 ? 0 : Math.ceil((burst * windowMs) / quota)
}

function parseText(text: string, byDefault: AlgorithmName | undefined): Limit[] {
  return text.split(';').map(part => {
    const limit = part.trim()
    if (limit === '' && text.trim() !== '') {
      const whole = text.split(';').map(each => each.trim())
      const others = whole.filter(each => each !== '').join('; ')
      const advice = others === '' ? ', expected a limit, like "100/1m"' : `: did you mean "${others}"?`
      throw new PolicyError(`policy ${shown(text)}: nothing stands on one side of a ";"${advice}`)
    }
    const [rate = '', ...words] = limit.split(/\s+/)
    const [, quota, window = ''] = TEXT.exec(rate) ?? []
    if (quota === undefined) throw new PolicyError(`limit ${shown(limit)}: ${TEXT_FORM}${correctionOf(limit)}`)
    const options: AnyLimitOptions = { quota: Number(quota) }
    for (const word of words) readWord(options, word, limit, words)
    const onCalendar = options.calendar !== undefined || options.timezone !== undefined
    if (onCalendar) options.calendar = singular(window) as CalendarWindow
    else options.window = window
    try {
      return parseLimit(options as LimitOptions, byDefault)
    } catch (error) {
      const correction = onCalendar ? '' : correctionOf(limit)
      const reason = correction === '' ? `${(error as Error).message}; ` : ''
      throw new PolicyError(`limit ${shown(limit)}: ${reason}${TEXT_FORM}${correction}`)
    }
  })
}

/**
 * `; did you mean "100/1m"?` for a rate in another spelling, like "100/min" or "100 per minute"; '' if there is no good
 * guess.
 */
function correctionOf(limit: string): string {
  const parts = limit.split(',').map(part => part.trim())
  if (parts.length > 1 && parts.every(part => TEXT.test(part))) return `; did you mean "${parts.join('; ')}"?`
  const [, quota = '', count, unit = '', rest] =
    /^([\d_,]+) *(?:r|reqs?|requests?)? *(?:\/|\bper\b|\ban?\b|\bevery\b|\bin\b) *(\d*) *([a-z]+)((?: +\S+)*)$/i.exec(
      limit,
    ) ?? []
  const meant = MEANT_WINDOWS.find(([pattern]) => pattern.test(unit.toLowerCase()))?.[1]
  if (meant === undefined) return ''
  const rate = quota.replace(/[_,]/g, '')
  const days = DAYS_OF[meant]
  if (days !== undefined) return `; did you mean "${rate}/${meant} calendar${rest}" or "${rate}/${days}${rest}"?`
  const window = meant === 'w' ? `${7 * Number(count || 1)}d` : `${count || 1}${meant}`
  const text = `${rate}/${window}${rest}`
  return text === limit ? '' : `; did you mean "${text}"?`
}

/** The options of either kind of limit, while it is not known which. `namedAfter`: only of `optionsOf`. */
type AnyLimitOptions = Partial<Omit<LimitOptions & CalendarLimitOptions, 'quota'>> & {
  quota: number
  namedAfter?: number
}

/** `words`: all of the limit, each of which says something else. */
function readWord(options: AnyLimitOptions, word: string, text: string, words: readonly string[]): void {
  const [, option, value] = /^(burst|name|tz)=(.+)$/.exec(word) ?? []
  const before = words.slice(0, words.lastIndexOf(word)).find(other => saysOf(other) === saysOf(word))
  if (before !== undefined) {
    throw new PolicyError(`limit ${shown(text)}: given ${shown(word)} after ${shown(before)}, expected one of them`)
  }
  if (option === 'burst') options.burst = /^\d+$/.test(value) ? Number(value) : Number.NaN
  else if (option === 'name') options.name = value
  else if (option === 'tz') options.timezone = value
  // Which window of the calendar stands before it.
  else if (word === 'calendar') options.calendar = 'day'
  else if (ALGORITHM_NAMES.includes(word as AlgorithmName)) options.algorithm = word as AlgorithmName
  else {
    throw new PolicyError(
      `limit ${shown(text)}: unknown word ${shown(word)}, expected an algorithm ` +
        `(${ALGORITHM_NAMES.join(', ')}), "burst=<units>", "name=<name>", "calendar" or "tz=<time zone>", like ` +
        `"100/1m token-bucket burst=20"${correctionOf(text)}`,
    )
  }
}

/** What a word of a limit is about. */
function saysOf(word: string): string {
  return ALGORITHM_NAMES.includes(word as AlgorithmName) ? 'algorithm' : word.replace(/=.*/, '')
}

function parseName(name: unknown): string {
  if (typeof name === 'string' && /^[\x20-\x7e]{1,64}$/.test(name)) return name
  throw new PolicyError(`limit: name ${shown(name)}: expected 1 to 64 printable ASCII characters, like "per-user"`)
}

function parseBurst(burst: number | undefined, quota: number, algorithm: AlgorithmName): number {
  if (burst === undefined) return quota
  if (!hasBurst(algorithm)) {
    const others = ALGORITHM_NAMES.filter(hasBurst).join(' and ')
    throw new PolicyError(`limit: burst ${shown(burst)} with ${algorithm}: only ${others} have a burst`)
  }
  if (Number.isSafeInteger(burst) && burst >= 1) return burst
  throw new PolicyError(`limit: burst ${shown(burst)}: expected an integer ≥ 1, like 20`)
}

function refuseInexact({ quota, windowMs, burst, algorithm }: Limit): void {
  if (!ALGORITHMS[algorithm].multiplies) return
  const units = Math.max(quota, burst)
  if (units * windowMs <= Number.MAX_SAFE_INTEGER) return
  throw new PolicyError(
    `limit: ${units} units × ${windowMs} ms is more than 2^53, beyond which ${algorithm} could not count exactly: ` +
      'expected a smaller quota or a shorter window, like the same rate per hour',
  )
}
