import { type AlertCondition, CONDITIONS, describeAlert } from '../../observing/alerts/conditions.js'
import type { LimitEntry } from '../index-entry.js'
import { count, latency, percent, plural } from '../look/format.js'
import { ALLOWED, REFUSED } from '../outcome-counts.js'
import type { FiringAlert } from '../process-record.js'
import { STEP_MS, STEPS, stepOf } from '../record-keys.js'
import type { AlertView, KeyView, QueueRow } from '../view.js'
import type { Reports } from './reports.js'
import type { TopCallers } from './top-callers.js'

const REFUSED_SHARE = 0.1
const KEY_SHARE = 0.5
/** Fewer events are not judged. */
const AT_LEAST = 20
const MOST = 8
/** A name like '5-per-15m' tells nothing that its limiter's only limit does not. */
const DEFAULT_NAME = /^\d+-per-/
const WRITTEN = { share: percent, ms: latency, count }

/**
 * The current problems, in words: those that processes with alerts report, and the dashboard's own rules for limiters and queues of which no
 * such process tells.
 */
export function alertsOf(
  reports: Reports,
  callers: TopCallers,
  queues: readonly QueueRow[],
  limits: readonly LimitEntry[],
  show: (key: string) => KeyView,
): AlertView[] {
  const judging = reports.alive.filter(({ record }) => record.alerts !== undefined)
  const fired = judging.flatMap(({ record }) => record.alerts ?? [])
  const judged = subjectsOf(reports, judging)
  const unjudged = limits.filter(({ name }) => !judged.limiters.has(name))
  const found = [
    ...breakerAlerts(reports),
    ...firing(fired, limits, show),
    ...refusals(reports, callers, unjudged, show),
    ...deadLetters(queues.filter(({ name }) => !judged.queues.has(name))),
  ]
  return found.slice(0, MOST)
}

/** The limiters and queues of which processes tell. */
function subjectsOf(reports: Reports, processes: ReadonlyArray<{ readonly id: string }>) {
  const [limiters, queues] = [new Set<string>(), new Set<string>()]
  for (const { id } of processes) {
    const details = reports.detailsOf(id)
    for (const name of details?.keys.keys() ?? []) limiters.add(name)
    for (const { queue } of details?.deliveries ?? []) queues.add(queue)
    for (const { object, name } of details?.levels ?? []) if (object === 'queue') queues.add(name)
  }
  return { limiters, queues }
}

function breakerAlerts({ alive }: Reports): AlertView[] {
  const open = alive.flatMap(({ record }) => (record.breaker === undefined ? [] : [record.breaker]))
  if (open.length === 0) return []
  const since = Math.min(...open.map(breaker => breaker.since))
  return [
    {
      id: 'breaker',
      title: `${plural(open.length, 'process does', 'processes do')} not ask Redis`,
      text: `It failed too often: ${open[0].reason}`,
      since,
    },
  ]
}

function refusals(
  reports: Reports,
  callers: TopCallers,
  limits: readonly LimitEntry[],
  show: (key: string) => KeyView,
): AlertView[] {
  const found: Array<AlertView & { share: number }> = []
  const [met, several] = [new Set<string>(), new Set<string>()]
  for (const { name } of limits) (met.has(name) ? several : met).add(name)
  for (const { id, name, limit } of limits) {
    const isPlain = limit.name === name || (!several.has(name) && DEFAULT_NAME.test(limit.name))
    const named = { subject: name, ...(!isPlain && { limitName: limit.name }) }
    const { counts, seconds } = reports.recent(id, 6)
    const decided = counts[ALLOWED] + counts[REFUSED]
    if (decided < AT_LEAST) continue
    const share = counts[REFUSED] / decided
    const [worst] = callers.most('refused', show, name, counts[REFUSED] / seconds)
    if (share > REFUSED_SHARE) {
      const since = refusingSince(reports, id)
      const text = worst && worst.share > KEY_SHARE ? `makes ${percent(worst.share)} of them.` : undefined
      const blame = text === undefined ? {} : { text, key: worst.key }
      found.push({
        id: `refused ${id}`,
        title: describeAlert('denied-share', name, share, WRITTEN),
        ...named,
        ...blame,
        since,
        limit: id,
        share,
      })
      continue
    }
    const [loudest] = callers.most('asked', show, name, decided / seconds)
    if (loudest && loudest.share > KEY_SHARE && callers.count(name) > 1) {
      const text = `makes ${percent(loudest.share)} of its requests.`
      found.push({
        id: `key ${id}`,
        title: `${name} serves one key above all`,
        ...named,
        text,
        key: loudest.key,
        limit: id,
        share: 0,
      })
    }
  }
  return found.sort((a, b) => b.share - a.share).map(({ share: _, ...alert }) => alert)
}

/** Since when so much was refused without a break: the last stretch of it. A step without requests is no break. */
function refusingSince(reports: Reports, id: string): number {
  const last = stepOf(reports.readAt)
  let since: number | undefined
  for (let step = last; step > last - STEPS; step--) {
    const counts = reports.counts(id, step)
    const decided = (counts?.[ALLOWED] ?? 0) + (counts?.[REFUSED] ?? 0)
    if (counts === undefined || decided === 0) continue
    if (counts[REFUSED] / decided > REFUSED_SHARE) since = step
    else if (since !== undefined) break
  }
  return (since ?? last) * STEP_MS
}

function deadLetters(queues: readonly QueueRow[]): AlertView[] {
  return queues
    .filter(({ dead }) => dead > 0)
    .map(({ name, dead }) => ({
      id: `dead ${name}`,
      title: describeAlert('dead-letters', name, dead, WRITTEN),
      subject: name,
      queue: name,
    }))
}

function firing(
  alerts: readonly FiringAlert[],
  limits: readonly LimitEntry[],
  show: (key: string) => KeyView,
): AlertView[] {
  const merged = new Map<string, FiringAlert>()
  for (const alert of alerts) {
    const id = `${alert.rule} ${alert.subject}`
    const known = merged.get(id)
    if (known === undefined) merged.set(id, alert)
    else
      merged.set(id, { ...known, since: Math.min(known.since, alert.since), value: Math.max(known.value, alert.value) })
  }
  return [...merged].map(([id, alert]) => {
    const limit = limits.find(({ name }) => name === alert.subject)
    return {
      id: `rule ${show(id).ref}`,
      ...wordsOf(alert, show),
      subject: alert.subject,
      since: alert.since,
      ...(limit !== undefined && { limit: limit.id }),
    }
  })
}

function wordsOf(
  { rule, when, subject, value }: FiringAlert,
  show: (key: string) => KeyView,
): Pick<AlertView, 'title' | 'text' | 'key'> {
  // A process of another version may tell of a condition that this one does not know.
  if (!Object.hasOwn(CONDITIONS, when)) return { title: `${rule}: ${subject}`, key: show(subject) }
  return { title: describeAlert(when as AlertCondition, subject, value, WRITTEN), text: `Rule ${rule}.` }
}
