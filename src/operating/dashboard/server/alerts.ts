import { getOrMake } from '../../../limiter/core/maps.js'
import { type AlertCondition, CONDITIONS, describeAlert } from '../../observing/alerts/conditions.js'
import { count, latency, percent, plural, span } from '../look/format.js'
import type { FiringAlert, QueueTrouble } from '../records.js'
import type { AlertView, KeyView } from '../view.js'
import type { FleetReports } from './fleet-reports.js'
import type { FleetSummary } from './fleet-summary.js'

const MOST_ALERTS = 8
/** So many limiters or queues of which one rule tells have a band each; of more the worst has one for all. */
const FEW = 5
/** So many of the others are named. */
const NAMED = 5
/** A key that makes more than this share of the refusals is named. */
const BLAMED_SHARE = 0.5
const FORMATS = { share: percent, ms: latency, count }
/** Each process judges what it sees: of several the largest share, or the longest time, is told. */
export const FORMATS_OF_MOST = {
  share: (value: number) => `up to ${percent(value)}`,
  ms: (value: number) => `up to ${latency(value)}`,
  count,
}

/** As many as a page shows, and how many more there are. */
export interface Alerts {
  readonly alerts: readonly AlertView[]
  readonly moreAlerts: number
}

/** Whether a key is known to be blocked under a limiter. */
export type IsBlocked = (limiter: string, key: string) => boolean

/** What one rule tells of one limiter or queue, in all processes. */
interface Told {
  readonly alert: FiringAlert
  readonly processes: number
}

/** What processes tell of their problems, in words: nothing is judged here. */
export function alertsOf(summary: FleetSummary, show: (key: string) => KeyView, isBlocked: IsBlocked): Alerts {
  const { reports } = summary
  const breakers = breakerAlerts(reports)
  const troubles = troubleAlerts(reports)
  // What these rules tell stands in the bands of the breakers and of the queues, with its reason.
  const isTold = (when: string) =>
    (when === 'breaker-open' && breakers.length > 0) || (when === 'consumer-failed' && troubles.length > 0)
  const firing = [...firingIn(reports)].flatMap(([, told]) =>
    isTold(told[0].alert.when) ? [] : bandsOf(told, summary, show, isBlocked),
  )
  const all = [...breakers, ...troubles, ...firing]
  const untold = Math.max(0, ...reports.alive.map(({ record }) => record.moreAlerts ?? 0))
  const alerts = all.slice(0, MOST_ALERTS)
  return { alerts, moreAlerts: all.length - alerts.length + untold }
}

/** The limiters of which processes tell that they refuse too much. */
export function refusingLimiters({ reports }: FleetSummary): string[] {
  const named = reports.alive.flatMap(({ record }) =>
    (record.alerts ?? []).flatMap(({ when, subject }) => (when === 'denied-share' ? [subject] : [])),
  )
  return [...new Set(named)]
}

function breakerAlerts({ alive }: FleetReports): AlertView[] {
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

/** Queues whose consumers cannot work, while their Redis may be well. */
function troubleAlerts({ alive }: FleetReports): AlertView[] {
  const troubles = new Map<string, QueueTrouble[]>()
  for (const { record } of alive) {
    for (const trouble of record.troubles ?? []) getOrMake(troubles, trouble.queue, () => []).push(trouble)
  }
  return [...troubles].map(([queue, all]) => ({
    id: `trouble ${queue}`,
    title: `${queue} is not worked on by ${plural(all.length, 'process', 'processes')}`,
    subject: queue,
    text: `Its consumers cannot work: ${all[0].reason}`,
    since: Math.min(...all.map(({ since }) => since)),
    queue,
  }))
}

/** By rule: what it tells of each limiter or queue, the worst first. */
function firingIn({ alive }: FleetReports): ReadonlyMap<string, readonly Told[]> {
  const rules = new Map<string, Map<string, Told>>()
  for (const { record } of alive) {
    for (const alert of record.alerts ?? []) {
      const subjects = getOrMake(rules, `${alert.when} ${alert.rule}`, () => new Map<string, Told>())
      const { alert: known = alert, processes = 0 } = subjects.get(alert.subject) ?? {}
      const since = Math.min(known.since, alert.since)
      const value = isCount(alert.when)
        ? alert.value + (processes > 0 ? known.value : 0)
        : Math.max(known.value, alert.value)
      subjects.set(alert.subject, { alert: { ...alert, since, value }, processes: processes + 1 })
    }
  }
  return new Map([...rules].map(([rule, of]) => [rule, [...of.values()].sort((a, b) => b.alert.value - a.alert.value)]))
}

function isCount(when: string): boolean {
  return Object.hasOwn(CONDITIONS, when) && CONDITIONS[when as AlertCondition].unit === 'count'
}

function bandsOf(
  told: readonly Told[],
  summary: FleetSummary,
  show: (key: string) => KeyView,
  isBlocked: IsBlocked,
): AlertView[] {
  const [worst, ...others] = told
  if (told.length <= FEW) return told.map(each => bandOf(each, summary, show, isBlocked))
  const names = others.slice(0, NAMED).map(({ alert }) => alert.subject)
  const more = others.length > NAMED ? ` and ${plural(others.length - NAMED, 'other')}` : ''
  const since = Math.min(...told.map(({ alert }) => alert.since))
  const { key: _, ...band } = bandOf(worst, summary, show, isBlocked)
  return [{ ...band, text: `Also, less so: ${names.join(', ')}${more}.`, since }]
}

function bandOf(
  { alert, processes }: Told,
  summary: FleetSummary,
  show: (key: string) => KeyView,
  isBlocked: IsBlocked,
): AlertView {
  const { rule, when, subject, since, value, overMs } = alert
  const told = `rule ${rule}, told by ${plural(processes, 'process', 'processes')}.`
  const band = {
    id: `rule ${show(`${rule} ${subject}`).ref}`,
    text: overMs === undefined ? `By ${told}` : `In the last ${span(overMs)}, by ${told}`,
    since,
  }
  // A process of another version may tell of a condition that this one does not know.
  if (!Object.hasOwn(CONDITIONS, when)) return { ...band, title: `${rule}: ${subject}`, key: show(subject) }
  const condition = when as AlertCondition
  const title = describeAlert(condition, subject, value, processes > 1 ? FORMATS_OF_MOST : FORMATS)
  const { of } = CONDITIONS[condition]
  if (of === 'queue') return { ...band, title, subject, queue: subject }
  if (of !== 'limiter') return { ...band, title }
  const found = summary.refusing(subject)
  const blamed =
    condition === 'denied-share' ? summary.callers.loudest('refused', subject, found.refused, isBlocked) : undefined
  return {
    ...band,
    title,
    subject,
    limit: found.worst?.id,
    limitName: found.ownName,
    ...(blamed !== undefined &&
      blamed.share > BLAMED_SHARE && {
        text: `makes ${percent(blamed.share)} of them in the last half minute.`,
        key: show(blamed.key),
      }),
  }
}
