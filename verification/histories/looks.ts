import {
  ANY_FAULT,
  type Changed,
  type Decided,
  endOf,
  type Fault,
  faultsIn,
  type Held,
  type History,
  isAnswered,
  type Limit,
  type Look,
  type Operation,
  type Subject,
  type Violation,
  WHOLE_MS,
} from './history.js'

/** What nobody wants any more is given back within so long: a process collects such messages for some ms. */
const BACK_MS = 50
/** After a fault the client connects again (1 s at most), and then repeats what was not answered (1 s at most). */
const BACK_AFTER_FAULT_MS = 2_500
/**
 * A server whose clock is set back lets what it has written down last longer, by the seconds that clocks are set by.
 */
const SET_MS = 10_000
/** After its deadline a decision may still be charged, for so long. */
const CHARGED_LATE_MS = 50
/** Those who wait stand in line until somebody sees that their process has died. */
const DEAD_MS = 7_000
/** No fault lasts that long: who waits for it is served before. */
const STUCK_MS = 20_000

/**
 * When all have ended, what was taken is back: each unit that is missing was granted to somebody, and its time is not
 * over; lines are empty, no message is held. And nobody waits for ever.
 */
export function checkLooks(history: History): Violation[] {
  const { looks = [], subjects } = history
  return subjects.flatMap(subject => {
    const all = history.operations.filter(one => one.subject === subject.name)
    const found = looks
      .filter(look => look.subject === subject.name)
      .flatMap(look => notBack(history, subject, all, look))
    return [...found, ...stuck(history, subject, all)]
  })
}

const BACK = 'not all is back'

function notBack(history: History, subject: Subject, all: readonly Operation[], look: Look): Violation[] {
  const { key, answeredAt: at, free, waiting = 0, messages = 0, error } = look
  const tell = (said: string, operations: readonly Operation[] = []): Violation[] => {
    return [{ rule: BACK, subject: subject.name, key, from: at, until: at, said, operations }]
  }
  if (error !== undefined) return tell(`nobody can tell: ${error}`)
  if (messages > 0) return tell(`${messages} messages are held, and nobody works on them`)
  if (waiting > diedWaiting(history, all, look)) return tell(`${waiting} wait in the line, and nobody waits`)
  if (free === undefined) return []
  const same = all.filter(one => one.key === key)
  const { missing, owned, taken } =
    subject.limits === undefined ? ofPermits(history, subject, same, look) : ofLimits(history, subject, same, look)
  if (missing <= owned) return []
  return tell(`${missing} units are missing, of which somebody may have ${owned}`, taken)
}

interface Missing {
  readonly missing: number
  /** How many of them somebody may have. */
  readonly owned: number
  /** Operations to which the missing units may belong. */
  readonly taken: readonly Operation[]
}

const unitsOf = (one: Operation): number =>
  'permits' in one ? one.permits : 'cost' in one ? one.cost : ((one as Changed).units ?? 0)

const sumOf = (some: readonly Operation[], unitsOfOne = unitsOf): number =>
  some.reduce((sum, one) => sum + unitsOfOne(one), 0)

const killed = ({ faults }: History, process: string): Fault | undefined =>
  faults.find(({ what, process: name }) => what === 'killed' && name === process)

/** Whether the server's clock was set in a span. */
const isSet = (history: History, from: number, until: number): boolean =>
  faultsIn(history, ['clock'], from, until).some(({ process }) => process === undefined)

/** By when a process has given back what it was granted after it had given up. */
function backBy(history: History, one: Operation): number {
  const concerns = ({ process }: Fault) => process === undefined || process === one.process
  const faults = faultsIn(history, ANY_FAULT, one.askedAt - BACK_AFTER_FAULT_MS, endOf(one) + BACK_MS).filter(concerns)
  return Math.max(endOf(one) + BACK_MS, ...faults.map(({ until }) => Math.max(until, endOf(one)) + BACK_AFTER_FAULT_MS))
}

/** When the process of one that had given up ended before it could tell the server; undefined: it could. */
function untoldAt(history: History, one: Operation): number | undefined {
  const unheard = history.unheard?.find(({ process }) => process === one.process)
  const endedAt = unheard?.endedAt ?? killed(history, one.process)?.until
  return endedAt !== undefined && backBy(history, one) > endedAt ? endedAt : undefined
}

/** Those whose processes ended while they waited, or before they could tell that they do not, not long ago. */
function diedWaiting(history: History, all: readonly Operation[], look: Look): number {
  return all.filter(one => {
    if (one.op !== 'hold' && one.op !== 'acquire') return false
    const isGranted = isAnswered(one) && ('permits' in one ? one.granted : one.allowed)
    const diedAt = one.answeredAt === undefined ? killed(history, one.process)?.until : untoldAt(history, one)
    return !isGranted && diedAt !== undefined && diedAt + DEAD_MS > look.askedAt
  }).length
}

/** The permits that are missing, and those who may hold them. */
function ofPermits(history: History, subject: Subject, all: readonly Operation[], look: Look): Missing {
  const { permits = 0, holdMs = 0 } = subject
  const released = new Map<number | undefined, Held>()
  for (const one of all) if (one.op === 'release' && !released.has(one.of)) released.set(one.of, one)
  const until = (hold: Held): number => {
    const set = isSet(history, hold.askedAt, look.askedAt) ? SET_MS : 0
    const death = killed(history, hold.process)
    const release = released.get(hold.id)
    const toldBy = (one: Operation) => {
      const lostAt = untoldAt(history, one) ?? Number.NEGATIVE_INFINITY
      return Math.max(backBy(history, one), lostAt + holdMs + set)
    }
    if (hold.answeredAt !== undefined && !(isAnswered(hold) && hold.granted)) return toldBy(hold)
    // Who loses its permits does so before the server ends them.
    if (release !== undefined && isAnswered(release)) return endOf(release) + (release.isLost ? holdMs + set : 0)
    if (release?.error !== undefined) return toldBy(release)
    return death === undefined ? Number.POSITIVE_INFINITY : death.until + holdMs + set
  }
  const taken = all.filter(
    (one): one is Held => one.op === 'hold' && one.askedAt < look.answeredAt && until(one) > look.askedAt,
  )
  return { missing: permits - (look.free ?? 0), owned: sumOf(taken), taken }
}

/** The units of the limit of which most are missing for no reason. */
function ofLimits(history: History, subject: Subject, all: readonly Operation[], look: Look): Missing {
  const none = { missing: 0, owned: 0, taken: [] }
  const { limits = [], leased } = subject
  const replaced = history.operations.flatMap(one =>
    one.op === 'limits' && one.subject === subject.name ? [one.limits] : [],
  )
  const spans = limits.map((limit, i) => {
    const inForce = [limit, ...replaced.map(list => list[i])]
    return Math.max(...inForce.map(countsMs)) + (leased ? leaseMs(limit) : 0)
  })
  const from = look.askedAt - Math.max(...spans)
  const blocked = all.some(
    one => one.op === 'block' && endOf(one) + (one.blockMs ?? 0) + BACK_AFTER_FAULT_MS > look.askedAt,
  )
  if (blocked || isSet(history, from - SET_MS, look.askedAt)) return none
  // What a process had leased when it died, and a purchase whose answer was lost, are back when their time is over.
  if (leased && faultsIn(history, ANY_FAULT, from - BACK_AFTER_FAULT_MS, look.askedAt).length > 0) return none
  // As long as others wait, nothing is free.
  if (diedWaiting(history, all, look) > 0) return none
  const unitsKept = leased ? unitsOf : keptBy(all)
  const each = limits.map((limit, i): Missing => {
    const may = all.flatMap(one => charges(history, subject, one, look))
    const taken = may.filter(({ by }) => by > look.askedAt - spans[i]).map(({ one }) => one)
    const inForce = [limit, ...replaced.map(list => list[i])]
    // What comes back of a lease fills a bucket by less: all that was taken in its time may be missing.
    const owned = isBucket(limit) && !leased ? owedBy(may, inForce, look.askedAt) : sumOf(taken, unitsKept)
    const capacity = Math.min(limit.burst, ...replaced.map(list => list[i].burst))
    // While a bucket is leased, what it regains in a lease cannot be bought.
    const kept = leased && isBucket(limit) ? Math.ceil((limit.quota * leaseMs(limit)) / limit.windowMs) : 0
    return { missing: capacity - kept - (look.free ?? 0), owned, taken }
  })
  // What is free is free under each of them: one of them must explain it.
  return each.sort((one, two) => one.missing - one.owned - (two.missing - two.owned))[0] ?? none
}

/** Units that an operation may have spent, and by when. */
interface Charging {
  readonly one: Operation
  readonly by: number
}

/**
 * What a decision has kept of a window: what it was settled to, however late, if that was answered. After a refund or
 * a reset a settlement may give back less, since nobody knows whose units came back.
 */
function keptBy(all: readonly Operation[]): (one: Operation) => number {
  const settled = new Map<number | undefined, number>()
  const isClear = !all.some(({ op }) => op === 'refund' || op === 'reset')
  for (const one of all) if (isClear && one.op === 'settle' && isAnswered(one)) settled.set(one.of, one.units ?? 0)
  return one => {
    const isExact = isAnswered(one) && (one as Decided).source === 'store'
    return Math.min(unitsOf(one), (isExact ? settled.get(one.id) : undefined) ?? Number.POSITIVE_INFINITY)
  }
}

/**
 * Usually one. While the store does not answer, the failure policy asks it for the same waiter in this process, too;
 * what is asked too late is charged all the same, also for a waiter that has given up, and nobody gives it back.
 */
function charges(history: History, subject: Subject, one: Operation, look: Look): Charging[] {
  const by = chargedBy(history, subject, one, look)
  const isCharged = by !== Number.NEGATIVE_INFINITY
  const isAskedTwice =
    one.op === 'acquire' &&
    one.askedAt <= look.answeredAt &&
    faultsIn(history, ANY_FAULT, one.askedAt, endOf(one)).length > 0
  const twice = { one, by: isCharged ? by : endOf(one) + subject.deadlineMs + CHARGED_LATE_MS }
  return [...(isCharged ? [{ one, by }] : []), ...(isAskedTwice ? [twice] : [])]
}

/** What a bucket owes at most, of a debt, too: it regains units as slowly as its slowest limit says, by whole ms. */
function owedBy(may: readonly Charging[], limits: readonly Limit[], lookedAt: number): number {
  const at = lookedAt - WHOLE_MS
  const rate = Math.min(...limits.map(({ quota, windowMs }) => quota / windowMs))
  let level = 0
  let since = Number.NEGATIVE_INFINITY
  const regain = (until: number) => {
    if (until > since && level > 0) level = Math.max(0, level - (until - since) * rate)
    since = Math.max(since, until)
  }
  for (const { one, by } of [...may].sort((a, b) => a.by - b.by)) {
    regain(Math.min(by, at))
    level += unitsOf(one)
  }
  regain(at)
  return Math.ceil(level)
}

const isBucket = ({ algorithm }: Limit): boolean => algorithm === 'token-bucket' || algorithm === 'leaky-bucket'

/** How long a unit counts. */
function countsMs(limit: Limit): number {
  const { algorithm, quota, windowMs, burst } = limit
  return isBucket(limit) ? (burst * windowMs) / quota : algorithm === 'sliding-counter' ? 2 * windowMs : windowMs
}

/** A lease lasts so long at most. */
const leaseMs = ({ windowMs }: Limit): number => Math.max(20, windowMs / 20)

/** By when an operation may have spent units; before all time: it has spent none. */
function chargedBy(history: History, subject: Subject, one: Operation, look: Look): number {
  const never = Number.NEGATIVE_INFINITY
  if (one.askedAt > look.answeredAt) return never
  const lateBy = one.askedAt + subject.deadlineMs + CHARGED_LATE_MS
  const unsureBy = () => Math.max(endOf(one), isSet(history, one.askedAt, lateBy) ? one.askedAt + SET_MS : lateBy)
  if (one.op === 'charge') return unsureBy()
  if (one.op !== 'consume' && one.op !== 'acquire') return never
  const { allowed, source, process } = one as Decided
  const isExact = isAnswered(one) && (source === 'store' || source === 'lease')
  if (isExact && allowed) return endOf(one)
  if (one.answeredAt === undefined) return killed(history, process)?.until ?? Number.POSITIVE_INFINITY
  // The failure policy let it in, and the server may count it.
  if (one.op === 'acquire' && allowed) return Math.max(endOf(one), backBy(history, one))
  // A place in a leaky bucket comes back only if nobody was charged after it.
  const isLeaky = subject.limits?.some(({ algorithm }) => algorithm === 'leaky-bucket')
  if (one.op === 'acquire' && isLeaky && faultsIn(history, ANY_FAULT, one.askedAt, endOf(one)).length > 0) {
    return backBy(history, one)
  }
  if (one.op === 'acquire') {
    return backBy(history, one) > look.askedAt ? look.askedAt : (untoldAt(history, one) ?? never)
  }
  return isExact || source === 'memory' ? never : unsureBy()
}

/** Whoever waits patiently is served, since every fault has an end; and nobody waits beyond its timeout. */
function stuck(history: History, subject: Subject, all: readonly Operation[]): Violation[] {
  // Units come back that slowly, or those of a process that died do.
  const { limits = [], holdMs = 0 } = subject
  const isSlow = limits.some(({ windowMs }) => windowMs > STUCK_MS) || holdMs > STUCK_MS
  return all.flatMap(one => {
    if (one.op !== 'hold' && one.op !== 'acquire') return []
    const { timeoutMs = 0, answeredAt, askedAt, process, key } = one
    const isRefused = 'permits' in one ? one.granted === false : one.allowed === false
    const isStuck = answeredAt !== undefined && isRefused && !isSlow && answeredAt - askedAt >= STUCK_MS
    const isForgotten = answeredAt === undefined && askedAt + timeoutMs + SET_MS < history.endedAt
    if (!isStuck && !(isForgotten && killed(history, process) === undefined)) return []
    const place = { subject: subject.name, key, from: askedAt, until: answeredAt ?? history.endedAt }
    const said = answeredAt === undefined ? 'it waits beyond its timeout' : `it waited for ${timeoutMs} ms in vain`
    return [{ rule: 'a waiter is stuck', ...place, said, operations: [one] }]
  })
}
