import { count, promiseWords, span } from '../../../dashboard/look/format.js'
import type { PagePolicy, Subject } from '../page-data.js'

const SUBJECTS: Readonly<Record<Subject, readonly [one: string, many: string]>> = {
  ip: ['address', 'addresses'],
  path: ['path', 'paths'],
  method: ['method', 'methods'],
  user: ['user', 'users'],
  agent: ['agent', 'agents'],
}

export function subjectWord(subject: Subject, value: number): string {
  return SUBJECTS[subject][value === 1 ? 0 : 1]
}

/** 'A' for the first of several policies; nothing for a single one. */
export function letterOf(index: number, policies: number): string {
  if (policies === 1) return ''
  return index < 26 ? String.fromCharCode(65 + index) : String(index + 1)
}

/** '10 in any minute, per address'. */
export function policyWords({ limits }: PagePolicy, by: Subject): string {
  return `${limits.map(promiseWords).join('; and ')}, per ${subjectWord(by, 1)}`
}

/** A wait in words. `ms`: −1 if the request never fits. */
export function waitWords(ms: number): string {
  if (ms < 0) return 'never fits'
  return ms === 0 ? '–' : span(ms)
}

/** A moment in UTC, as exact as the span of a column needs: '17 May', '17 May 10:05', '10:05:03'. */
export function utc(second: number, spanSeconds: number, withDay = true): string {
  const date = new Date(second * 1000)
  const day = `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`
  if (spanSeconds % 86_400 === 0) return spanSeconds > 86_400 * 20 ? `${day} ${date.getUTCFullYear()}` : day
  const time = date.toISOString().slice(11, spanSeconds % 60 === 0 ? 16 : 19)
  return withDay ? `${day} ${time}` : time
}

/** The full moment: '2015-05-17 10:05:03'. */
export function fullUtc(second: number): string {
  return new Date(second * 1000).toISOString().slice(0, 19).replace('T', ' ')
}

/** '1 request', '10 000 requests'. */
export function requests(value: number): string {
  return `${count(value)} ${value === 1 ? 'request' : 'requests'}`
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']
