const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

/** 2015-05-17 10:00:00 UTC, in seconds. */
export const TEN_O_CLOCK = 1_431_856_800

export interface LineParts {
  readonly client?: string
  readonly user?: string
  /** Seconds since the epoch. */
  readonly at?: number
  readonly request?: string
  readonly tail?: string
}

/** A line of an access log in common format, or in another with a `tail`; without its newline. */
export function logLine(parts: LineParts = {}): string {
  const { client = '203.0.113.7', user = '-', at = TEN_O_CLOCK, request = 'GET / HTTP/1.1', tail = '' } = parts
  return `${client} - ${user} [${logTime(at)}] "${request}" 200 512${tail}`
}

/** As '17/May/2015:10:00:00 +0000', in a zone that many minutes east. */
export function logTime(at: number, zoneMinutes = 0): string {
  const date = new Date((at + zoneMinutes * 60) * 1000)
  const [, year, month, day, time] = /^(\d+)-(\d+)-(\d+)T(\d+:\d+:\d+)/.exec(date.toISOString())!
  const zone = `${String(Math.floor(Math.abs(zoneMinutes) / 60)).padStart(2, '0')}${String(Math.abs(zoneMinutes) % 60).padStart(2, '0')}`
  return `${day}/${MONTHS[Number(month) - 1]}/${year}:${time} ${zoneMinutes < 0 ? '-' : '+'}${zone}`
}
