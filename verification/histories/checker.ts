// Reads what a run has left and says which promises were broken. It knows nothing of the code: no import from src/.
import { checkBounds } from './bounds.js'
import type { History, Violation } from './history.js'
import { checkLimits } from './limits.js'
import { checkLooks } from './looks.js'
import { checkTurns } from './turns.js'

/**
 * Every violation, the shortest span of each rule and subject first. `excused` counts, by subject, the spans that only
 * a fault allows.
 */
export function check(history: History, excused?: Map<string, number>): Violation[] {
  const found = [
    ...checkLimits(history, excused),
    ...checkTurns(history),
    ...checkLooks(history),
    ...checkBounds(history),
  ]
  for (const key of history.leftKeys) {
    const place = { subject: 'redis', key, from: history.endedAt, until: history.endedAt, operations: [] }
    found.push({ rule: 'a key is left', ...place, said: 'it has no lifetime' })
  }
  return found.sort((one, two) => one.until - one.from - (two.until - two.from))
}

/** What was done to each subject, and how each operation was answered. */
export function tableOf(history: History, excused: ReadonlyMap<string, number>): string {
  const columns = ['asked', 'granted', 'refused', 'alone', 'failed', 'unanswered', 'over in faults']
  const rows = [['subject', 'operation', ...columns]]
  for (const { name } of history.subjects) {
    const all = history.operations.filter(({ subject }) => subject === name)
    for (const op of new Set(all.map(one => one.op))) {
      const same = all.filter(one => one.op === op) as Array<(typeof all)[number] & Record<string, unknown>>
      const count = (test: (one: (typeof same)[number]) => boolean) => String(same.filter(test).length)
      const isAlone = (one: (typeof same)[number]) => ['fallback', 'open', 'closed'].includes(String(one.source))
      const counts = [
        count(() => true),
        count(one => one.allowed === true || one.granted === true),
        count(one => one.allowed === false || one.granted === false),
        count(isAlone),
        count(one => one.error !== undefined),
        count(one => one.answeredAt === undefined),
        op === 'consume' || op === 'acquire' || op === 'request' ? String(excused.get(name) ?? 0) : '',
      ]
      rows.push([name, op, ...counts])
    }
  }
  const widths = rows[0].map((_, column) => Math.max(...rows.map(row => row[column].length)))
  const lines = rows.map(row =>
    row.map((cell, i) => (i < 2 ? cell.padEnd(widths[i]) : cell.padStart(widths[i]))).join('  '),
  )
  return lines.join('\n')
}

/** A violation as a person reads it: what was promised, and the events that show that it was broken. */
export function textOf({ rule, subject, key, from, said, operations }: Violation): string {
  const events = operations.slice(0, 20).map(operation => {
    const { askedAt, answeredAt, process, op, ...rest } = operation
    const end = answeredAt === undefined ? '?' : (answeredAt - from).toFixed(1)
    return `    ${(askedAt - from).toFixed(1)} to ${end} ms  ${process}  ${op}  ${JSON.stringify(rest)}`
  })
  const more = operations.length > 20 ? [`    and ${operations.length - 20} more`] : []
  return [`${rule}: ${subject} ${JSON.stringify(key)} from ${from.toFixed(1)} ms: ${said}`, ...events, ...more].join(
    '\n',
  )
}
