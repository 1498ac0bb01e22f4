import { getOrMake } from '../../../limiter/core/maps.js'
import { type AlertCondition, CONDITIONS, describeAlert } from '../../observing/alerts/conditions.js'
import { ALLOWED, REFUSED } from '../counts.js'
import { count, latency, percent, plural } from '../look/format.js'
import { type FiringAlert, type LimitEntry, type QueueTrouble, STEP_MS, STEPS, stepOf } from '../records.js'
import type { AlertView, KeyView } from '../view.js'
import type { Reading } from './reading.js'
import type { Reports } from './reports.js'

const REFUSED_SHARE = 0.1
const KEY_SHARE = 0.5
/** Fewer events are not judged. */
const AT_LEAST = 20
const MOST_ALERTS = 8
const FEW_QUEUES = 3
const FORMATS = { share: percent, ms: latency, count }

/** As many as a page shows, and how many more there are. */
export interface Alerts {
  readonly alerts: readonly AlertView[]
  readonly moreAlerts: number
}

/**
 * The current problems, in words: those that processes with alerts report, and the dashboard's own rules for limiters
 * and queues of which no such process tells. `dead`: how many dead letters each queue has.
 */
export function alertsOf(reading: Reading, dead: ReadonlyMap<string, number>, show: (key: string) => KeyView): Alerts {
  const { reports, limits } = reading
  const judging = reports.alive.filter(({ record }) => record.alerts !== undefined)
  const fired = judging.flatMap(({ record }) => record.alerts ?? [])
  const judged = subjectsOf(reports, judging)
  const letters = deadLetters([...dead].filter(([name]) => !judged.queues.has(name)))
  // Only those that are shown are put into words: to find the beginning takes as long as all the rest.
  const found = [
    ...[...breakerAlerts(reports), ...troubleAlerts(reports), ...firing(fired, limits, show)].map(alert => () => alert),
    ...refusals(reading, name => !judged.limiters.has(name), show),
  ]
  const alerts = [...found.slice(0, MOST_ALERTS - letters.length).map(alert => alert()), ...letters]
  return { alerts, moreAlerts: found.length + letters.length - alerts.length }
}

/** The limiters and queues of which processes tell. */
function subjectsOf(reports: Reports, processes: ReadonlyArray<{ readonly id: string }>) {
  const [limiters, queues] = [new Set<string>(), new Set<string>()]
  for (const { id } of processes) {
    const details = reports.details.get(id)
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

/** Queues whose consumers cannot work, while their Redis may be well. */
function troubleAlerts({ alive }: Reports): AlertView[] {
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

/** What was decided by a limiter: by all its limits together. */
interface LimiterSum {
  /** The limit that refuses most. */
  worst: LimitEntry
  worstRefused: number
  limits: number
  allowed: number
  refused: number
  seconds: number
}

/** A limiter refuses by all its limits together, and its alert leads to the worst of them. */
function refusals(
  reading: Reading,
  isOurs: (limiter: string) => boolean,
  show: (key: string) => KeyView,
): Array<() => AlertView> {
  const { reports, callers } = reading
  const limiters = new Map<string, LimiterSum>()
  for (const limit of reading.limits) {
    const { id, name } = limit
    if (!isOurs(name)) continue
    const { counts, seconds } = reports.recent(id, 6)
    const sum = getOrMake(limiters, name, () => ({
      worst: limit,
      worstRefused: 0,
      limits: 0,
      allowed: 0,
      refused: 0,
      seconds,
    }))
    sum.limits++
    // A request that is allowed counts under each limit, one that is refused under those that refuse it.
    sum.allowed = Math.max(sum.allowed, counts[ALLOWED])
    sum.refused += counts[REFUSED]
    if (counts[REFUSED] > sum.worstRefused) Object.assign(sum, { worst: limit, worstRefused: counts[REFUSED] })
  }
  const found: Array<{ share: number; alert: () => AlertView }> = []
  for (const [name, sum] of limiters) {
    const { allowed, refused, seconds } = sum
    const { id } = sum.worst
    const decided = allowed + refused
    if (decided < AT_LEAST) continue
    const share = refused / decided
    if (share > REFUSED_SHARE) {
      found.push({
        share,
        alert: () => {
          const worst = callers.loudest('refused', name, refused / seconds)
          const blame = worst !== undefined && worst.share > KEY_SHARE
          return {
            id: `refused ${id}`,
            title: describeAlert('denied-share', name, share, FORMATS),
            subject: name,
            ...(sum.refused === sum.worstRefused && ownName(sum)),
            ...(blame && { text: `makes ${percent(worst.share)} of them.`, key: show(worst.key) }),
            since: refusingSince(reports, id),
            limit: id,
          }
        },
      })
      continue
    }
    if (callers.count(name) < 2) continue
    const loudest = callers.loudest('asked', name, decided / seconds)
    if (loudest === undefined || loudest.share <= KEY_SHARE) continue
    found.push({
      share: 0,
      alert: () => ({
        id: `key ${id}`,
        title: `${name} serves one key above all`,
        subject: name,
        ...(sum.limits === 1 && ownName(sum)),
        text: `makes ${percent(loudest.share)} of its requests.`,
        key: show(loudest.key),
        limit: id,
      }),
    })
  }
  return found.sort((a, b) => b.share - a.share).map(({ alert }) => alert)
}

/** The name of the limit of which an alert tells, if that of its limiter does not say which it is. */
function ownName({ worst: { name, limit }, limits }: LimiterSum): Pick<AlertView, 'limitName'> {
  // A name like '5-per-15m' tells nothing that its limiter's only limit does not.
  const isPlain = limit.name === name || (limits === 1 && limit.namedAfter !== undefined)
  return isPlain ? {} : { limitName: limit.name }
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

/** Of few queues an alert each, of many one for all. */
function deadLetters(queues: ReadonlyArray<readonly [name: string, dead: number]>): AlertView[] {
  const dead = queues.filter(([, dead]) => dead > 0)
  if (dead.length <= FEW_QUEUES)
    return dead.map(([name, dead]) => ({
      id: `dead ${name}`,
      title: describeAlert('dead-letters', name, dead, FORMATS),
      subject: name,
      queue: name,
    }))
  const sum = dead.reduce((sum, [, dead]) => sum + dead, 0)
  const [[worst, most]] = [...dead].sort((a, b) => b[1] - a[1])
  return [
    {
      id: 'dead letters',
      title: `${plural(dead.length, 'queue')} have ${plural(sum, 'dead letter')}`,
      text: `Most of them in ${worst}: ${most}.`,
      queue: worst,
    },
  ]
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
      ...describeFiring(alert, show),
      subject: alert.subject,
      since: alert.since,
      limit: limit?.id,
    }
  })
}

function describeFiring(
  { rule, when, subject, value }: FiringAlert,
  show: (key: string) => KeyView,
): Pick<AlertView, 'title' | 'text' | 'key'> {
  // A process of another version may tell of a condition that this one does not know.
  if (!Object.hasOwn(CONDITIONS, when)) return { title: `${rule}: ${subject}`, key: show(subject) }
  return { title: describeAlert(when as AlertCondition, subject, value, FORMATS), text: `Rule ${rule}.` }
}
