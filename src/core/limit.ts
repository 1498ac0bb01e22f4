import { CALENDAR_WINDOWS, Calendar, type CalendarRule, type CalendarWindow, isCalendarWindow } from './calendar.js'
import { type Duration, formatDuration, parseOption } from './duration.js'
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
  /** Units per window; integer ≥ 0. 0 refuses everything. */
  quota: number
  /** Length of the window: whole ms or text like '1m'; more than 0. */
  window: Duration
  /** Default 'sliding-window'. */
  algorithm?: AlgorithmName
  /** token-bucket: most units that can be spent at one instant; leaky-bucket: places, including the request that leaves at once. Integer ≥ 1, default `quota`. */
  burst?: number
  /** Default "100-per-1m". Names the limit in headers and store keys: printable ASCII, at most 64 characters. */
  name?: string
}

/** One rule in windows of the calendar, like `quota` units per month, counted separately for each key. The algorithm is a fixed window. */
export interface CalendarLimitOptions {
  /** Units per window; integer ≥ 0. 0 refuses everything. */
  quota: number
  /** 'hour', 'day', 'week' (from Monday), 'month' or 'year'. The store's clock decides when a window begins. */
  window: CalendarWindow
  /** A name of the IANA time zone database, like 'Europe/Berlin'; default 'UTC'. */
  timezone?: string
  /** Default "500-per-day". Names the limit in headers and store keys: printable ASCII, at most 64 characters. */
  name?: string
}

/**
 * '100/1m' · '100/1m token-bucket' · '100/1m token-bucket burst=20' · '500/day' · '500/day tz=Europe/Berlin' · several joined with ';' ·
 * objects · a list of either.
 */
export type PolicyInput =
  | string
  | LimitOptions
  | CalendarLimitOptions
  | ReadonlyArray<string | LimitOptions | CalendarLimitOptions>

/** A checked, frozen rule. Durations in ms. */
export interface Limit {
  /** Unique in its policy; stands in headers and store keys. */
  readonly name: string
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
  'expected "<quota>/<duration>", like "100/1m" (ms, s, m, h, d) or "500/day" (hour, day, week, month, year)'
const OPTION_NAMES = new Set(['quota', 'window', 'algorithm', 'burst', 'name', 'timezone'])
/** The algorithm of calendar windows. */
const CALENDAR_ALGORITHM = 'fixed-window'

/**
 * Reads a policy. `algorithm` applies to limits that name none, default 'sliding-window'. Throws `PolicyError`, which says what
 * was given and what was expected.
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
        `policy: two limits are named ${shown(name)}: give one a name of its own, like { quota: 100, window: "1m", name: "burst" }`,
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
    if (!OPTION_NAMES.has(option)) {
      throw new PolicyError(
        `limit: unknown option ${shown(option)}, expected ${[...OPTION_NAMES].join(', ')}, like { quota: 100, window: "1m" }`,
      )
    }
  }
  const { quota, window, timezone, burst, ...others }: LimitOptions & { timezone?: string } = options
  const onCalendar = isCalendarWindow(window)
  const { algorithm = onCalendar ? CALENDAR_ALGORITHM : byDefault } = others
  if (!Number.isSafeInteger(quota) || quota < 0) {
    throw new PolicyError(`limit: quota ${shown(quota)}: expected an integer ≥ 0 (0 refuses everything), like 100`)
  }
  if (timezone !== undefined && !onCalendar) {
    throw new PolicyError(
      `limit: timezone ${shown(timezone)} with window ${shown(window)}: expected a window of the calendar (${CALENDAR_WINDOWS.join(', ')}), like "500/day tz=Europe/Berlin"`,
    )
  }
  if (onCalendar && algorithm !== CALENDAR_ALGORITHM) {
    throw new PolicyError(
      `limit: window ${shown(window)} with ${shown(algorithm)}: expected ${CALENDAR_ALGORITHM}, or a window like '1d'`,
    )
  }
  const calendar = onCalendar ? Calendar.of(window, timezone ?? 'UTC') : undefined
  const windowMs = calendar?.longestMs ?? parseOption(window, 'limit: window')
  if (!ALGORITHM_NAMES.includes(algorithm)) {
    throw new PolicyError(`limit: unknown algorithm ${shown(algorithm)}, expected one of ${ALGORITHM_NAMES.join(', ')}`)
  }
  const name = parseName(others.name ?? `${quota}-per-${onCalendar ? window : formatDuration(windowMs)}`)
  const limit = { name, quota, windowMs, burst: parseBurst(burst, quota, algorithm), algorithm }
  refuseInexact(limit)
  if (calendar === undefined) return Object.freeze(limit)
  const { timezone: zone } = calendar
  return Object.freeze({ ...limit, calendar: Object.freeze({ window: calendar.window, timezone: zone }) })
}

/** A checked limit as the options that make it again. */
export function optionsOf({
  name,
  quota,
  windowMs,
  burst,
  algorithm,
  calendar,
}: Limit): LimitOptions | CalendarLimitOptions {
  if (calendar !== undefined) return { name, quota, ...calendar }
  return { name, quota, window: windowMs, algorithm, ...(hasBurst(algorithm) && { burst }) }
}

/** The most units that can ever be spent at one instant. */
export function mostOf({ quota, burst }: Limit): number {
  return quota === 0 ? 0 : burst
}

/**
 * What a limit counts over, as text: of two limits with one name and one algorithm, those that agree in this share their counts. Any change of it
 * starts counts anew; a bucket scales what it has counted instead, so it has none.
 */
export function countedSpan({ algorithm, windowMs, calendar }: Limit): string {
  if (ALGORITHMS[algorithm].keepsShare) return ''
  return calendar === undefined ? String(windowMs) : `-${calendar.window}-${calendar.timezone}`
}

/** How long a limit that is spent to its end takes to be as if never used, in ms; 0 at a quota of 0. */
export function fillMsOf({ quota, windowMs, burst }: Limit): number {
  return quota === 0 ? 0 : Math.ceil((burst * windowMs) / quota)
}

function parseText(text: string, byDefault: AlgorithmName | undefined): Limit[] {
  return text.split(';').map(part => {
    const [rate = '', ...words] = part.trim().split(/\s+/)
    const match = TEXT.exec(rate)
    if (!match) throw new PolicyError(`limit ${shown(part.trim())}: ${TEXT_FORM}`)
    const options: TextOptions = { quota: Number(match[1]), window: match[2] }
    for (const word of words) readWord(options, word, part.trim())
    try {
      return parseLimit(options, byDefault)
    } catch (error) {
      throw new PolicyError(`limit ${shown(part.trim())}: ${(error as Error).message}; ${TEXT_FORM}`)
    }
  })
}

type TextOptions = LimitOptions & { timezone?: string }

function readWord(options: TextOptions, word: string, text: string): void {
  const [, option, value] = /^(burst|name|tz)=(.+)$/.exec(word) ?? []
  if (option === 'burst') options.burst = /^\d+$/.test(value) ? Number(value) : Number.NaN
  else if (option === 'name') options.name = value
  else if (option === 'tz') options.timezone = value
  else if (ALGORITHM_NAMES.includes(word as AlgorithmName)) options.algorithm = word as AlgorithmName
  else {
    throw new PolicyError(
      `limit ${shown(text)}: unknown word ${shown(word)}, expected an algorithm (${ALGORITHM_NAMES.join(', ')}), ` +
        `"burst=<units>", "name=<name>" or "tz=<time zone>", like "100/1m token-bucket burst=20"`,
    )
  }
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
