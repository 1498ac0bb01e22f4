import { PolicyError, shown } from './errors.js'
import { BoundedMap, getOrMake } from './maps.js'

/** A window of the calendar, in some time zone. Weeks begin on Monday. */
export type CalendarWindow = 'hour' | 'day' | 'week' | 'month' | 'year'

/** The calendar windows of a limit. */
export interface CalendarRule {
  /** The kind of window. */
  readonly window: CalendarWindow
  /** A time zone name of the IANA database. */
  readonly timezone: string
}

/** From `startAt` (included) to `endAt` (excluded), ms since the epoch. */
export interface CalendarSpan {
  readonly startAt: number
  readonly endAt: number
}

export const CALENDAR_WINDOWS: readonly CalendarWindow[] = Object.freeze(['hour', 'day', 'week', 'month', 'year'])

export function isCalendarWindow(word: unknown): word is CalendarWindow {
  return CALENDAR_WINDOWS.includes(word as CalendarWindow)
}

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** The longest window of a zone is searched in these years; two of them are leap years. */
const SAMPLE = [Date.UTC(2024, 0, 1), Date.UTC(2032, 0, 1)] as const

/** Formatters of zones are large, and users may choose zones. A limit keeps its own calendar; others are found here. */
const MOST_KNOWN = 100

/** A local date and time, as the ms since the epoch of the same date and time in UTC. */
type Wall = number

/**
 * The windows of one kind in one time zone, by the time zone data of the runtime. Changes to summer time and months of
 * 28 to 31 days are exact. A day begins at the first moment of its date, also where midnight is skipped. An hour begins
 * when the local clock shows minute 0, and where clocks go back.
 */
export class Calendar {
  static readonly #known = new BoundedMap<string, Calendar>(MOST_KNOWN)
  static readonly #ofRules = new WeakMap<CalendarRule, Calendar>()

  readonly #zone: Zone
  #last: CalendarSpan = { startAt: 0, endAt: 0 }
  #longestMs = 0
  #shortestMs = 0

  private constructor(
    readonly window: CalendarWindow,
    readonly timezone: string,
  ) {
    this.#zone = Zone.of(timezone)
  }

  /** Throws `PolicyError` for a time zone that the runtime does not know. */
  static of(window: CalendarWindow, timezone: string): Calendar {
    const id = `${window} ${timezone}`
    return getOrMake(Calendar.#known, id, () => new Calendar(window, timezone))
  }

  /** The calendar of a limit. */
  static ofRule(rule: CalendarRule): Calendar {
    let calendar = Calendar.#ofRules.get(rule)
    if (calendar === undefined) {
      calendar = Calendar.of(rule.window, rule.timezone)
      Calendar.#ofRules.set(rule, calendar)
    }
    return calendar
  }

  /** The length of the longest possible window, ms. */
  get longestMs(): number {
    if (this.#longestMs === 0) this.#measure()
    return this.#longestMs
  }

  /** The length of the shortest possible window, ms. */
  get shortestMs(): number {
    if (this.#shortestMs === 0) this.#measure()
    return this.#shortestMs
  }

  /** The window that contains a moment, given in ms since the epoch. */
  spanAt(moment: number): CalendarSpan {
    const last = this.#last
    if (moment >= last.startAt && moment < last.endAt) return last
    this.#last = this.window === 'hour' ? this.#hourAt(moment) : this.#datesAt(moment)
    return this.#last
  }

  #datesAt(moment: number): CalendarSpan {
    const first = firstDate(this.window, this.#zone.wallAt(moment))
    let startAt = this.#zone.momentOf(first)
    let next = nextDate(this.window, first)
    let endAt = this.#zone.momentOf(next)
    // Clocks that go back over midnight show the old date again.
    while (endAt <= moment) {
      startAt = endAt
      next = nextDate(this.window, next)
      endAt = this.#zone.momentOf(next)
    }
    return { startAt, endAt }
  }

  #hourAt(moment: number): CalendarSpan {
    const zone = this.#zone
    const offset = zone.offsetAt(moment)
    const intoHour = remainder(moment + offset, HOUR_MS)
    let startAt = moment - intoHour
    const before = zone.offsetAt(startAt)
    if (before !== offset) {
      const change = zone.changeIn(startAt, moment)
      // Clocks that go forward may skip minute 0: the window continues.
      startAt = before > offset ? change : change - remainder(change + before - 1, HOUR_MS) - 1
    }
    let endAt = moment - intoHour + HOUR_MS
    const after = zone.offsetAt(endAt)
    if (after !== offset) {
      const change = zone.changeIn(moment, endAt)
      endAt = after < offset ? change : change + remainder(-(change + after), HOUR_MS)
    }
    return { startAt, endAt }
  }

  #measure(): void {
    const [from, to] = SAMPLE
    const moments = this.#zone.changesIn(from, to)
    if (this.window === 'month' || this.window === 'year')
      for (let at = from; at < to; at += 28 * DAY_MS) moments.push(at)
    else moments.push(from)
    const lengths = moments
      .flatMap(at => [at - 1, at])
      .map(at => {
        const { startAt, endAt } = this.spanAt(at)
        return endAt - startAt
      })
    this.#longestMs = Math.max(...lengths)
    this.#shortestMs = Math.min(...lengths)
  }
}

function unknownZone(timezone: unknown): PolicyError {
  return new PolicyError(
    `limit: timezone ${shown(timezone)}: expected a name of the IANA time zone database, like "Europe/Berlin"`,
  )
}

/** A time zone: converts between moments and local time. */
class Zone {
  static readonly #known = new BoundedMap<string, Zone>(MOST_KNOWN)
  readonly #format: Intl.DateTimeFormat

  /** Names of zones are the same in any case. Throws `PolicyError` for one that the runtime does not know. */
  static of(timezone: string): Zone {
    if (typeof timezone !== 'string') throw unknownZone(timezone)
    return getOrMake(Zone.#known, timezone.toLowerCase(), () => new Zone(timezone))
  }

  private constructor(timezone: string) {
    try {
      this.#format = new Intl.DateTimeFormat('en-US', {
        timeZone: timezone,
        hourCycle: 'h23',
        year: 'numeric',
        month: 'numeric',
        day: 'numeric',
        hour: 'numeric',
        minute: 'numeric',
        second: 'numeric',
      })
    } catch {
      throw unknownZone(timezone)
    }
  }

  wallAt(moment: number): Wall {
    const parts: Record<string, number> = {}
    for (const { type, value } of this.#format.formatToParts(moment)) parts[type] = Number(value)
    const { year, month, day, hour, minute, second } = parts
    return Date.UTC(year, month - 1, day, hour, minute, second) + remainder(moment, 1000)
  }

  /** How far local clocks are ahead of UTC, ms. */
  offsetAt(moment: number): number {
    return this.wallAt(moment) - moment
  }

  /** The first moment at which local clocks show `wall`; where they skip it, the first moment after. */
  momentOf(wall: Wall): number {
    const before = this.offsetAt(wall - 36 * HOUR_MS)
    const after = this.offsetAt(wall + 36 * HOUR_MS)
    if (before === after) return wall - before
    const change = this.changeIn(wall - 36 * HOUR_MS, wall + 36 * HOUR_MS)
    if (wall < change + before) return wall - before
    return Math.max(change, wall - after)
  }

  /** The moment after `from`, up to `to`, at which the offset changes. There must be one. */
  changeIn(from: number, to: number): number {
    const before = this.offsetAt(from)
    let [low, high] = [from, to]
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2)
      if (this.offsetAt(middle) === before) low = middle
      else high = middle
    }
    return high
  }

  changesIn(from: number, to: number): number[] {
    const changes: number[] = []
    for (let at = from; at < to; at += 7 * DAY_MS) {
      if (this.offsetAt(at) !== this.offsetAt(at + 7 * DAY_MS)) changes.push(this.changeIn(at, at + 7 * DAY_MS))
    }
    return changes
  }
}

/** Midnight of the first date of the window that contains a date. */
function firstDate(window: CalendarWindow, wall: Wall): Wall {
  const date = new Date(wall)
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()]
  if (window === 'year') return Date.UTC(year, 0, 1)
  if (window === 'month') return Date.UTC(year, month, 1)
  const sinceMonday = window === 'week' ? (date.getUTCDay() + 6) % 7 : 0
  return Date.UTC(year, month, day - sinceMonday)
}

/** Midnight of the first date of the next window. */
function nextDate(window: CalendarWindow, first: Wall): Wall {
  const date = new Date(first)
  if (window === 'year') return Date.UTC(date.getUTCFullYear() + 1, 0, 1)
  if (window === 'month') return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1)
  return first + (window === 'week' ? 7 : 1) * DAY_MS
}

/** The remainder, never negative, unlike `%`. */
function remainder(a: number, b: number): number {
  return ((a % b) + b) % b
}
