/** Words and line styles that the parts of the page share. */
import { policyWords, span } from '../../../dashboard/look/format.js'
import type { Subject } from '../access-log.js'
import type { TrialResult } from '../report.js'

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

/** '10 in any minute, per address'. */
export function trialWords({ policy }: Pick<TrialResult, 'policy'>, by: Subject): string {
  return `${policyWords(policy)}, per ${subjectWord(by, 1)}`
}

/** A wait in words. `ms`: −1 if the request never fits, undefined if none was refused. */
export function waitWords(ms = 0): string {
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

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

/** The line styles of policies: they differ in their dashes, so that they are distinguishable without colours. */
const DASHES = ['', '7 4', '2 3', '12 4 2 4']
const SHADES = 4

export function lineOf(index: number): { readonly dashes: string; readonly shade: string } {
  return { dashes: DASHES[index % DASHES.length], shade: `line-${index % SHADES}` }
}

export function Swatch({ index }: { index: number }) {
  const { dashes, shade } = lineOf(index)
  return (
    <svg class={`swatch ${shade}`} viewBox="0 0 28 6" width="28" height="6" aria-hidden="true">
      <line x1="0" y1="3" x2="28" y2="3" stroke-dasharray={dashes} />
    </svg>
  )
}
