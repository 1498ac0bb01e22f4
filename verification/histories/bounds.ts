import { type Decided, type History, isAnswered, type Operation, type Violation } from './history.js'

/** How much later than its deadline a decision may come. */
const GRACE_MS = 30
/** So many answers of the store in a row show that a process is back. */
const ENOUGH = 100
/**
 * A server carries nothing out that was sent more than a second before, for which a process that waits for a processor
 * may need some time.
 */
const CARRIED_OUT_MS = 1300

/** A server that is stopped stands still by then. */
const STANDS_MS = 5

const isAlone = ({ source }: Decided) => source === 'fallback' || source === 'open' || source === 'closed'
/** The faults that were made, not those that were only seen. */
const made = ({ faults }: History) => faults.filter(({ mendedAt }) => mendedAt !== undefined)

/**
 * What a single fault allows, of keys whose windows outlast the run: how much is admitted of a key, when the store
 * decides again, and how long a decision takes.
 */
export function checkBounds(history: History): Violation[] {
  const { bounds, subjects, operations } = history
  if (bounds === undefined) return []
  const subject = subjects.find(({ name }) => name === bounds.subject)
  const [{ quota }] = subject?.limits ?? []
  const share = quota * (subject?.localShare ?? 1)
  const decisions = operations.filter((one): one is Decided => one.subject === bounds.subject && 'cost' in one)
  const found: Violation[] = []
  const tell = (rule: string, said: string, some: readonly Operation[]) => {
    const { subject, key } = some[0]
    const until = Math.max(...some.map(({ askedAt, answeredAt }) => answeredAt ?? askedAt))
    found.push({ rule, subject, key, from: some[0].askedAt, until, said, operations: some })
  }

  for (const all of groups(decisions, ({ key }) => key)) {
    const granted = all.filter(({ allowed }) => allowed)
    const units = (some: readonly Decided[]) => some.reduce((sum, { cost }) => sum + cost, 0)
    const byStore = units(granted.filter(one => !isAlone(one)))
    if (byStore > bounds.lives * quota) tell('more than the fault allows', `${byStore} units by the store`, granted)
    for (const alone of groups(granted.filter(isAlone), ({ process }) => process)) {
      const most = bounds.alone ? share : 0
      if (units(alone) > most) tell('more than the fault allows', `${units(alone)} units, its share is ${most}`, alone)
    }
    // Nobody knows what became of a question that the store did not answer.
    const isExact = bounds.lives === 1 && all.every(one => isAnswered(one) && !isAlone(one))
    if (isExact && byStore < Math.min(quota, units(all))) tell('less than the limit allows', `${byStore} units`, all)
  }

  const faults = made(history)
  const from = faults.length === 0 ? Number.NEGATIVE_INFINITY : Math.min(...faults.map(fault => fault.from))
  const latest = decisions.filter(one => {
    const { askedAt, answeredAt = history.endedAt, starvedMs = 0 } = one
    return askedAt > from && answeredAt - askedAt - starvedMs > (subject?.deadlineMs ?? 0) + GRACE_MS
  })
  if (latest.length > 0) tell('decided too late', `${latest.length} decisions`, latest)

  for (const all of faults.length === 0 ? [] : groups(decisions, ({ process }) => process)) {
    const mendedAt = Math.max(...faults.map(fault => fault.mendedAt as number))
    const backMs = backAt(all, mendedAt) - mendedAt
    if (backMs > bounds.backMs) tell('not back in time', `after ${backMs.toFixed(0)} ms of ${bounds.backMs}`, all)
  }

  for (const key of askedInVain(history)) {
    const known = history.knownKeys?.find(name => name.includes(`{${key}}`))
    if (known)
      tell(
        'carried out too late',
        `${known} is there`,
        decisions.filter(one => one.key === key),
      )
  }
  return found
}

/** When a process had its answers from the store again, for good. */
function backAt(decisions: readonly Decided[], mendedAt: number): number {
  let [streak, began] = [0, 0]
  const answered = decisions.filter(isAnswered).sort((one, two) => (one.answeredAt ?? 0) - (two.answeredAt ?? 0))
  for (const one of answered) {
    if (isAlone(one)) streak = 0
    else if (one.source === 'store' && (one.answeredAt ?? 0) >= mendedAt) {
      if (streak++ === 0) began = one.answeredAt ?? 0
      if (streak === ENOUGH) return began
    }
  }
  return Number.POSITIVE_INFINITY
}

/** Keys that were asked for only while the server surely stood still, and long before it went on. */
export function askedInVain(history: History): string[] {
  const decisions = history.operations.filter((one): one is Decided => 'cost' in one)
  const isAnsweredIn = (from: number, until: number) => (one: Decided) =>
    one.source === 'store' && one.askedAt > from && (one.answeredAt ?? until) < until
  const stood = made(history)
    .map(({ from, mendedAt = 0 }) => ({ from: from + STANDS_MS, until: mendedAt }))
    .filter(({ from, until }) => !decisions.some(isAnsweredIn(from, until)))
  return [...groups(decisions, ({ key }) => key)].flatMap(all => {
    const [first, last] = [all[0].askedAt, all[all.length - 1].askedAt]
    const isInVain = stood.some(({ from, until }) => first > from && last < until - CARRIED_OUT_MS)
    return isInVain ? [all[0].key] : []
  })
}

function groups<T>(items: readonly T[], of: (item: T) => string): Iterable<T[]> {
  const all = new Map<string, T[]>()
  for (const item of items) {
    const same = all.get(of(item))
    if (same === undefined) all.set(of(item), [item])
    else same.push(item)
  }
  return all.values()
}
