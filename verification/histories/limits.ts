import { getOrMake } from '../../src/limiter/core/maps.js'
import {
  ANEW,
  ANY_FAULT,
  type Changed,
  type Decided,
  endOf,
  type Fault,
  faultsIn,
  type History,
  isAnswered,
  type Limit,
  type Operation,
  RECOVERY_MS,
  type Replaced,
  SLACK_MS,
  Spans,
  type Subject,
  type Violation,
  WHOLE_MS,
} from './history.js'

const EXACT = new Set(['store', 'lease'])
/** After these a key is counted by another clock. */
const SETS_CLOCK: ReadonlyArray<Fault['what']> = ['moved', 'clock', 'failover']
/** After a change of limits has been answered, processes follow within this time. */
const FOLLOWED_MS = 1_000
/** Where a fault fell into this, some only later. */
const FOLLOWED_LATE_MS = 8_000

/** Until the store has answered a process for the first time. */
const CONNECT_MS = 1_000
/** After its deadline a decision that the failure policy has taken over may still be charged, for so long. */
const CHARGED_LATE_MS = 50
/**
 * Longer than a server stands still: until then a call may be in its line or in its socket, although its caller has
 * been answered.
 */
const IN_LINE_MS = 10_000

/** The store may have charged it, whatever was answered. */
const isUnsure = (one: Decided): boolean =>
  !isAnswered(one) || !(EXACT.has(one.source ?? '') || one.source === 'memory')

/** It waited, and the server may still grant it, because the server's answer was not the one that counted. */
const isInLine = (one: Decided): boolean => one.op === 'acquire' && !(one.allowed && one.source === 'store')

const askedAt = (one: Operation): number => one.askedAt

const HEARD = new WeakMap<History, ReadonlyMap<string, number>>()

/**
 * When a process that asks over HTTP heard from the store for the first time. The others ask for the server's clock
 * before anything else: of them, before all time.
 */
function heardAt(history: History, process: string): number {
  if (!history.repeating?.includes(process)) return Number.NEGATIVE_INFINITY
  return getOrMake(HEARD, history, () => firstAnswers(history)).get(process) ?? Number.POSITIVE_INFINITY
}

function firstAnswers({ operations }: History): ReadonlyMap<string, number> {
  const first = new Map<string, number>()
  for (const one of operations) {
    if ((one as Decided).source !== 'store' || !isAnswered(one)) continue
    first.set(one.process, Math.min(first.get(one.process) ?? Number.POSITIVE_INFINITY, endOf(one)))
  }
  return first
}

/** What happened to one key of one limiter or rate, in the order in which it was asked. */
class KeyHistory {
  readonly decisions: Decided[] = []
  readonly changes: Changed[] = []
  /** Longer spans say nothing that shorter ones do not. */
  readonly longestMs: number
  readonly bursts: readonly number[]
  /** How long after it was asked a decision may be charged. */
  readonly lateMs: number
  /** Calls wait in a line. */
  readonly waits: boolean
  /** What was leased before a loss may be spent after it, for a window at most. */
  readonly leasedMs: number
  readonly #settled = new Map<number, number>()
  readonly #all: readonly Limit[]
  /** When the clock was set, and when the key was opened first since. */
  readonly #moves: ReadonlyArray<{ readonly setAt: number; readonly openedAt: number }>
  readonly #spans: Spans<Decided>
  readonly #refunds: Spans<Changed>
  readonly #resets: Spans<Changed>
  /** Settlements of decisions that the server has lost since, and what each may give back. */
  readonly #ofLost: Spans<{ readonly change: Changed; readonly units: number }>

  constructor(
    readonly history: History,
    readonly subject: Subject,
    readonly key: string,
    operations: readonly Operation[],
    readonly replaced: readonly Replaced[],
    readonly startedAt: readonly number[],
  ) {
    for (const operation of operations) {
      if (operation.op === 'consume' || operation.op === 'acquire' || operation.op === 'request') {
        this.decisions.push(operation)
      } else this.changes.push(operation as Changed)
    }
    for (const { op, of, units } of this.changes) {
      if (op !== 'settle' || of === undefined) continue
      this.#settled.set(of, Math.min(this.#settled.get(of) ?? Number.POSITIVE_INFINITY, units ?? 0))
    }
    const all = this.limitsIn(Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY).flat()
    this.#all = all
    this.lateMs = subject.lateMs ?? subject.deadlineMs + CHARGED_LATE_MS
    this.waits = this.decisions.some(({ op }) => op === 'acquire')
    this.bursts = all.map(({ burst }) => burst)
    const longestWindowMs = Math.max(...all.map(({ windowMs }) => windowMs))
    this.longestMs = 3 * longestWindowMs
    this.leasedMs = subject.leased ? longestWindowMs : 0
    this.#spans = new Spans(this.decisions, askedAt, endOf)
    const changes = (op: Changed['op']) => {
      return new Spans(
        this.changes.filter(change => change.op === op),
        askedAt,
        this.doneBy,
      )
    }
    const opened = this.decisions.filter(one => one.source === 'store' && isAnswered(one))
    const sets = faultsIn(history, SETS_CLOCK, Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY)
    this.#moves = sets.map(({ from, until }) => {
      const first = opened.find(one => one.askedAt > until)
      return { setAt: from, openedAt: first === undefined ? Number.POSITIVE_INFINITY : endOf(first) }
    })
    this.#refunds = changes('refund')
    this.#resets = changes('reset')
    const charged = new Map(this.decisions.map(one => [one.id, one]))
    const ofLost = this.changes.flatMap(change => {
      const decision = change.op === 'settle' ? charged.get(change.of ?? -1) : undefined
      if (decision === undefined || this.beginningsIn(decision.askedAt, this.doneBy(change)) === 0) return []
      return [{ change, units: decision.cost - Math.min(decision.cost, change.units ?? 0) }]
    })
    this.#ofLost = new Spans(
      ofLost,
      ({ change }) => change.askedAt,
      ({ change }) => this.doneBy(change),
    )
  }

  /** What settlements may give back in a span of decisions that the server has lost since. */
  settledAfterLoss(from: number, until: number): number {
    return this.#ofLost.in(from, until).reduce((sum, { units }) => sum + units, 0)
  }

  /** The decisions that were asked before `until` and over after `from`. */
  decisionsIn(from: number, until: number): Decided[] {
    return this.#spans.in(from, until)
  }

  /** By when the store has charged it. */
  chargedBy = (one: Decided): number => Math.max(endOf(one), isUnsure(one) ? one.askedAt + this.#lateMsOf(one) : 0)

  /**
   * Deadlines are moments of the server's clock: if that is set back meanwhile, what lies in its socket is carried out.
   * So is a decision that a process asked over HTTP before it has heard of that clock: it takes its own for it.
   */
  #lateMsOf(one: Decided | Changed): number {
    const { askedAt, process } = one
    // While a server stands still, nobody hears that its clock was set before.
    const still = faultsIn(this.history, ['hang'], askedAt, askedAt).map(({ from }) => from)
    const sets = faultsIn(this.history, ['clock'], Math.min(askedAt, ...still), askedAt + IN_LINE_MS)
    const mayBeLate =
      sets.some(({ process }) => process === undefined) || ('cost' in one && askedAt < heardAt(this.history, process))
    return mayBeLate ? Math.max(this.lateMs, IN_LINE_MS) : this.lateMs
  }

  /** A change that failed may still be carried out. */
  readonly doneBy = (change: Changed): number =>
    Math.max(endOf(change), change.error === undefined ? 0 : change.askedAt + this.#lateMsOf(change))

  /**
   * Whether what was spent before a span may count in it: when a clock was set, it counts from the moment on at which
   * the key is opened next.
   */
  isMoved(from: number, until: number): boolean {
    return this.#moves.some(({ setAt, openedAt }) => setAt < until && openedAt > from)
  }

  /** What every limit of the subject allows in a span of this length, whatever happened in it. */
  leastIn(spanMs: number): number {
    return this.#all.reduce((least, limit) => Math.min(least, atLeast(limit, spanMs)), Number.POSITIVE_INFINITY)
  }

  /** The units that a grant has surely kept. */
  keptBy = (decision: Decided): number => Math.min(decision.cost, this.#settled.get(decision.id) ?? decision.cost)

  /** The limits that may have been in force in a span, one list for each. */
  limitsIn(from: number, until: number): ReadonlyArray<readonly Limit[]> {
    const given = this.subject.limits ?? []
    if (this.replaced.length === 0) return [given]
    const isNew = this.startedAt.some(at => at < until && at + FOLLOWED_LATE_MS > from)
    const standing = this.replaced.findLast(change => this.#isFollowed(change, from, until))
    const inForce = this.replaced.filter(change => {
      return change.askedAt < until && (standing === undefined || standing.askedAt <= endOf(change))
    })
    // A process that has just started may not know them yet.
    return [...(standing === undefined || isNew ? [given] : []), ...inForce.map(({ limits }) => limits)]
  }

  /** Whether all processes surely obey a change, or a later one, from one moment until another. */
  #isFollowed(change: Replaced, from: number, until: number): boolean {
    const followedAt = endOf(change) + FOLLOWED_MS
    if (!isAnswered(change) || followedAt > from) return false
    // A process may have missed it, and finds that out later; and a server that forgets goes back to what was before.
    if (faultsIn(this.history, ANEW, change.askedAt, until).length > 0) return false
    return followedAt + FOLLOWED_LATE_MS <= from || faultsIn(this.history, ANY_FAULT, change.askedAt, from).length === 0
  }

  /** What may have been given back in a span. */
  returnedIn(from: number, until: number): number {
    return this.#refunds.in(from, until).reduce((sum, { units = 0 }) => sum + units, 0)
  }

  /** How often the key may have begun anew in a span: by a reset, or because a server lost what it knew. */
  beginningsIn(from: number, until: number): number {
    const lost = faultsIn(this.history, ANEW, from, until).filter(({ process }) => process === undefined)
    return this.#resets.in(from, until).length + lost.length
  }

  violation(rule: string, said: string, operations: readonly Operation[]): Violation {
    const from = Math.min(...operations.map(({ askedAt }) => askedAt))
    const until = Math.max(...operations.map(endOf))
    return { rule, subject: this.subject.name, key: this.key, from, until, said, operations }
  }
}

/**
 * All that is promised of limiters and shared rates. `excused` counts, by subject, the spans that only a fault allows.
 */
export function checkLimits(history: History, excused = new Map<string, number>()): Violation[] {
  const found: Violation[] = []
  const connectedAt = new Map<string, number>()
  const startedAt = new Map<string, number>()
  for (const one of history.operations) {
    startedAt.set(one.process, Math.min(one.askedAt, startedAt.get(one.process) ?? Number.POSITIVE_INFINITY))
    if (!('source' in one) || one.source !== 'store' || !isAnswered(one)) continue
    connectedAt.set(one.process, Math.min(endOf(one), connectedAt.get(one.process) ?? Number.POSITIVE_INFINITY))
  }
  for (const subject of history.subjects) {
    if (subject.limits === undefined) continue
    const all = history.operations.filter(operation => operation.subject === subject.name)
    const replaced = all.filter((operation): operation is Replaced => operation.op === 'limits')
    replaced.sort((one, two) => one.askedAt - two.askedAt)
    const byKey = new Map<string, Operation[]>()
    for (const operation of all) {
      if (operation.op === 'limits') continue
      const same = byKey.get(operation.key)
      if (same === undefined) byKey.set(operation.key, [operation])
      else same.push(operation)
    }
    for (const [key, operations] of byKey) {
      operations.sort((one, two) => one.askedAt - two.askedAt)
      const of = new KeyHistory(history, subject, key, operations, replaced, [...startedAt.values()])
      found.push(...overTheLimit(of, excused), ...refusedInVain(of), ...tooSoon(of), ...tooLate(of))
      found.push(...tooMuchLeft(of), ...duringBlocks(of), ...ofRequests(of))
    }
    const decisions = all.filter((operation): operation is Decided => 'cost' in operation)
    found.push(...ofFailures(history, subject, decisions), ...localShares(history, subject, all, decisions))
    found.push(...deadlines(history, subject, decisions, connectedAt))
  }
  return found
}

/** No fewer are allowed in any span of this length. */
function atLeast(limit: Limit, spanMs: number): number {
  return isBucket(limit) ? most(limit, spanMs) : Math.ceil(spanMs / limit.windowMs) * limit.quota
}

/** The most units of a span, whatever the moment at which it begins. */
function most(limit: Limit, spanMs: number): number {
  const { algorithm, quota, windowMs, burst } = limit
  if (algorithm === 'sliding-window') return Math.ceil(spanMs / windowMs) * quota
  if (isBucket(limit)) return burst + (quota * spanMs) / windowMs
  // A span of less than a window lies in two windows at most.
  return (Math.ceil(spanMs / windowMs) + 1) * quota
}

/**
 * No span has more units than each limit allows: of grants that surely lie in it, by their times of asking and
 * answering.
 */
function overTheLimit(of: KeyHistory, excused: Map<string, number>): Violation[] {
  let worst: Violation | undefined
  const grants = of.decisions.filter(one => one.allowed && isAnswered(one) && EXACT.has(one.source ?? ''))
  for (const [at, first] of grants.entries()) {
    const from = first.askedAt
    const following: Decided[] = []
    for (let i = at; i < grants.length && grants[i].askedAt < from + of.longestMs; i++) following.push(grants[i])
    following.sort((one, two) => endOf(one) - endOf(two))
    let units = 0
    let isExcused = false
    for (const [i, grant] of following.entries()) {
      units += of.keptBy(grant)
      const until = endOf(grant)
      if (worst !== undefined && until - from >= worst.until - worst.from) break
      if (units <= of.leastIn(until - from)) continue
      const allowed = allowedIn(of, from, until)
      if (units <= allowed) {
        isExcused ||= units > allowed - of.beginningsIn(from, until) * Math.min(...of.bursts)
        continue
      }
      const said = `${units} units in ${(until - from).toFixed(0)} ms; at most ${allowed.toFixed(1)} are allowed`
      worst = of.violation('over the limit', said, following.slice(0, i + 1))
      break
    }
    if (isExcused) excused.set(of.subject.name, (excused.get(of.subject.name) ?? 0) + 1)
  }
  return worst === undefined ? [] : [worst]
}

function allowedIn(of: KeyHistory, from: number, until: number): number {
  const anew = 1 + of.beginningsIn(from - of.leasedMs, until)
  const longer = until + WHOLE_MS
  const failovers = faultsIn(of.history, ['failover'], from, until)
  const settled = of.settledAfterLoss(from, until)
  const bounds = of.limitsIn(from, until).map(limits => {
    return Math.min(
      ...limits.map(limit => {
        const once = boundOf(of, limit, from, longer) + (anew - 1) * limit.burst + (tellsCharges(limit) ? 0 : settled)
        return failovers.reduce((sum, fault) => sum + besideIn(fault, limit, from, longer), once)
      }),
    )
  })
  return Math.max(...bounds) + of.returnedIn(from, until) + lateReturnsIn(of, from, until)
}

/**
 * A call that the failure policy answered may be granted, lost by the server, and given back when the key has begun
 * anew.
 */
function lateReturnsIn(of: KeyHistory, from: number, until: number): number {
  if (!of.waits) return 0
  const late = of.decisionsIn(from - IN_LINE_MS, until).filter(one => {
    return isInLine(one) && begunBy(of, one) > from && of.beginningsIn(one.askedAt, until) > 0
  })
  return late.reduce((sum, { cost }) => sum + cost, 0)
}

/** Whether its state tells when it was charged: then a settlement finds that what it would give back is lost. */
const tellsCharges = ({ algorithm }: Limit) => algorithm === 'fixed-window' || algorithm === 'sliding-window'

/**
 * While a replica takes over, the primary may live, and each of the two grants what the limit allows: so much beyond a
 * burst.
 */
function besideIn(fault: Fault, limit: Limit, from: number, until: number): number {
  return most(limit, Math.min(until, fault.until) - Math.max(from, fault.from)) - limit.burst
}

function boundOf(of: KeyHistory, limit: Limit, from: number, until: number): number {
  if (limit.algorithm === 'fixed-window' && startsHere(of, limit.windowMs, from, until))
    return Math.ceil((until - from) / limit.windowMs) * limit.quota
  return most(limit, until - from)
}

/**
 * By when a decision may have begun a window. One that the server did not make stays in its line until the server hears
 * that nobody waits for it, and what it is granted is given back.
 */
function begunBy(of: KeyHistory, one: Decided): number {
  if (!isInLine(one)) return of.chargedBy(one)
  const faults = faultsIn(of.history, ANY_FAULT, one.askedAt, endOf(one))
  return Math.max(of.chargedBy(one), ...faults.map(({ until }) => until + of.lateMs))
}

/** A window counted from its first request: after a whole window without any, the next begins with the span. */
function startsHere(of: KeyHistory, windowMs: number, from: number, until: number): boolean {
  if (of.isMoved(from - windowMs, from)) return false
  for (const one of of.decisionsIn(from - windowMs - (of.waits ? IN_LINE_MS : of.lateMs), from)) {
    if ((one.allowed || isUnsure(one) || one.op === 'acquire') && begunBy(of, one) + windowMs > from) return false
  }
  return !of.changes.some(({ op, askedAt }) => op === 'charge' && askedAt < until)
}

/**
 * A refusal by the store has a reason: refused requests spend nothing, and a decision under several limits spends from
 * all or from none.
 */
function refusedInVain(of: KeyHistory): Violation[] {
  const found: Violation[] = []
  const { subject, changes } = of
  // Those who wait stand before; units on leases of other processes refuse for a while.
  if (subject.leased || of.decisions.some(({ op }) => op === 'acquire')) return []
  for (const refused of of.decisions) {
    if (refused.allowed !== false || refused.source !== 'store' || !isAnswered(refused)) continue
    const looks = of.limitsIn(refused.askedAt, endOf(refused)).flat().map(lookMs)
    const from = refused.askedAt - Math.max(of.longestMs, ...looks)
    const all = of.limitsIn(from, endOf(refused))
    const blocks = changes.some(({ op, askedAt }) => op === 'block' && askedAt < endOf(refused))
    const charges = changes.some(({ op, units }) => op === 'charge' || (op === 'settle' && units !== undefined))
    if (blocks || charges || all.length !== 1 || refused.retryAfterMs === Number.POSITIVE_INFINITY) continue
    const hasReason = all[0].some(limit => mayBeSpent(of, limit, refused) + refused.cost > limit.burst)
    if (!hasReason && !of.isMoved(from, endOf(refused))) {
      found.push(of.violation('refused in vain', `a request of ${refused.cost} fits every limit`, [refused]))
    }
  }
  return found
}

function isBucket({ algorithm }: Limit): boolean {
  return algorithm === 'token-bucket' || algorithm === 'leaky-bucket'
}

/** How far before a refusal its reason is looked for: a bucket that has been full for longer is not empty by then. */
function lookMs(limit: Limit): number {
  const { algorithm, quota, windowMs, burst } = limit
  return isBucket(limit) ? (5 * burst * windowMs) / quota : algorithm === 'sliding-counter' ? 2 * windowMs : windowMs
}

/** The most that may have been spent of a limit when a request was decided. */
function mayBeSpent(of: KeyHistory, limit: Limit, refused: Decided): number {
  const { quota, windowMs, burst } = limit
  const from = refused.askedAt - lookMs(limit)
  const before = of
    .decisionsIn(from - Math.max(of.lateMs, IN_LINE_MS), endOf(refused))
    .filter(one => one.id !== refused.id && (one.allowed || isUnsure(one)) && of.chargedBy(one) > from)
  const { repeating = [] } = of.history
  const isTwice = (one: Decided) =>
    repeating.includes(one.process) && faultsIn(of.history, ['cut', 'hang'], one.askedAt, of.chargedBy(one)).length > 0
  const units = (some: readonly Decided[]) => some.reduce((sum, one) => sum + one.cost * (isTwice(one) ? 2 : 1), 0)
  if (!isBucket(limit)) return units(before)
  // The level is highest if the bucket was empty just before one of them; or it was full when the look begins.
  const drained = (ms: number) => (Math.max(0, ms - WHOLE_MS) * quota) / windowMs
  let level = Math.max(0, burst - drained(refused.askedAt - from) + units(before))
  const lastCharged = [...before].sort((one, two) => of.chargedBy(two) - of.chargedBy(one))
  let [next, since] = [0, 0]
  for (const first of [...before].reverse()) {
    while (next < lastCharged.length && of.chargedBy(lastCharged[next]) >= first.askedAt) {
      since += units([lastCharged[next++]])
    }
    level = Math.max(level, since - drained(refused.askedAt - of.chargedBy(first)))
  }
  return level
}

/** `retryAfterMs` is true: nothing of that cost is granted sooner, unless something was given back. */
function tooSoon(of: KeyHistory): Violation[] {
  const found: Violation[] = []
  // Leases give back what they have not spent, whenever they end.
  if (of.subject.leased) return []
  const exact = of.decisions.filter(one => isAnswered(one) && EXACT.has(one.source ?? ''))
  for (const [at, refused] of exact.entries()) {
    const { retryAfterMs = 0, cost } = refused
    if (refused.allowed !== false || refused.source !== 'store' || retryAfterMs === 0) continue
    let granted: Decided | undefined
    for (let i = at + 1; i < exact.length && granted === undefined; i++) {
      const next = exact[i]
      if (next.askedAt >= refused.askedAt + retryAfterMs) break
      const later = next.askedAt >= endOf(refused) && next.source === 'store' && next.allowed && next.cost >= cost
      if (later && endOf(next) + WHOLE_MS < refused.askedAt + retryAfterMs) granted = next
    }
    if (granted === undefined) continue
    const [from, until] = [refused.askedAt, endOf(granted)]
    // A later block replaces an earlier one, which may be the reason of the refusal.
    const returned = of.changes.some(one => {
      return one.askedAt < until && one.op !== 'charge' && (one.op !== 'block' || of.doneBy(one) > from)
    })
    if (returned || of.beginningsIn(from, until) > 0 || of.limitsIn(from, until).length > 1) continue
    const said = `refused for ${retryAfterMs.toFixed(0)} ms, and granted ${(until - from).toFixed(0)} ms later`
    found.push(of.violation('granted sooner than said', said, [refused, granted]))
  }
  return found
}

/** `retryAfterMs` is enough: when it is over, and nothing was spent since, a request of that cost is not refused. */
function tooLate(of: KeyHistory): Violation[] {
  const found: Violation[] = []
  // Those who wait stand before; leases of other processes hold units.
  if (of.subject.leased || of.waits) return []
  const spends = new Set<Changed['op']>(['charge', 'settle', 'block'])
  for (const [at, refused] of of.decisions.entries()) {
    const { allowed, source, retryAfterMs = 0, cost } = refused
    // A wait that a process remembers was told before others may have spent.
    if (allowed !== false || source !== 'store' || !isAnswered(refused)) continue
    const from = refused.askedAt
    for (let i = at + 1; i < of.decisions.length; i++) {
      const again = of.decisions[i]
      if (again.allowed || isUnsure(again)) break
      const until = endOf(again)
      // A process counts what it remembers from the moment at which it heard of it.
      const heardLateMs = again.source === 'memory' ? of.subject.deadlineMs : 0
      if (again.askedAt < endOf(refused) + retryAfterMs + heardLateMs + WHOLE_MS || again.cost > cost) continue
      const since = of.decisionsIn(from - IN_LINE_MS, until)
      const isSpent =
        since.some(one => (one.allowed || isUnsure(one)) && of.chargedBy(one) > from) ||
        of.changes.some(one => spends.has(one.op) && one.askedAt < until && of.doneBy(one) > from)
      if (isSpent || of.isMoved(from, until) || of.limitsIn(from, until).length > 1) break
      // A process may remember what it was told before units came back, and another one's wait began when it heard of
      // it.
      const isOld = of.changes.length > 0 || of.beginningsIn(from - of.longestMs, until) > 0
      if (again.source === 'memory' && (isOld || again.process !== refused.process)) continue
      const said = `refused for ${retryAfterMs.toFixed(0)} ms, and again ${(until - from).toFixed(0)} ms later`
      found.push(of.violation('refused longer than said', said, [refused, again]))
      break
    }
  }
  return found
}

/** `remaining` never names units that were surely spent. */
function tooMuchLeft(of: KeyHistory): Violation[] {
  const found: Violation[] = []
  const grants = of.decisions.filter(grant => grant.allowed && isAnswered(grant) && EXACT.has(grant.source ?? ''))
  const spans = new Spans(grants, askedAt, endOf)
  for (const told of grants) {
    if (told.remaining === undefined || told.source !== 'store') continue
    const lists = of.limitsIn(told.askedAt, endOf(told))
    const limits = lists.flat().filter(({ algorithm }) => algorithm === 'sliding-window')
    if (lists.length !== 1 || limits.length !== lists[0].length || of.changes.length > 0) continue
    const from = endOf(told) + WHOLE_MS - Math.min(...limits.map(({ windowMs }) => windowMs))
    if (of.beginningsIn(from - of.leasedMs, endOf(told)) > 0) continue
    const spent = spans.in(from, told.askedAt).filter(grant => grant.askedAt > from && endOf(grant) < told.askedAt)
    const units = told.cost + spent.reduce((sum, { cost }) => sum + cost, 0)
    const left = Math.min(...limits.map(({ quota }) => quota - units))
    if (told.remaining <= Math.max(0, left)) continue
    const said = `remaining ${told.remaining}, and ${units} units were spent: at most ${left} are left`
    found.push(of.violation('remaining too high', said, [...spent, told]))
  }
  return found
}

/** A blocked key is granted nothing by the store. */
function duringBlocks(of: KeyHistory): Violation[] {
  const found: Violation[] = []
  for (const block of of.changes) {
    if (block.op !== 'block' || !isAnswered(block)) continue
    const ends = (op: Changed['op']) => op === 'unblock' || op === 'reset' || op === 'block'
    const ended = of.changes.find(one => one !== block && ends(one.op) && of.doneBy(one) > block.askedAt)
    const until = Math.min(block.askedAt + (block.blockMs ?? 0) - WHOLE_MS, ended?.askedAt ?? Number.POSITIVE_INFINITY)
    const granted = of.decisions.find(next => {
      const inside = next.askedAt > endOf(block) + FOLLOWED_MS && endOf(next) < until
      return inside && isAnswered(next) && next.allowed && EXACT.has(next.source ?? '')
    })
    if (granted === undefined || of.beginningsIn(block.askedAt, endOf(granted)) > 0) continue
    found.push(of.violation('granted while blocked', `blocked for ${block.blockMs} ms`, [block, granted]))
  }
  return found
}

/** A refused request over HTTP reaches no handler and says when to come back; one that is let in is not refused. */
function ofRequests(of: KeyHistory): Violation[] {
  const found: Violation[] = []
  for (const request of of.decisions) {
    const { op, status, retryAfter, handled } = request
    if (op !== 'request' || status === undefined) continue
    if (status === 429 && handled) found.push(of.violation('a refused request was handled', 'status 429', [request]))
    if (status === 429 && !/^[1-9]\d*$/.test(retryAfter ?? '')) {
      found.push(of.violation('no Retry-After', `status 429, Retry-After: ${retryAfter}`, [request]))
    }
    if (status === 200 && !handled) found.push(of.violation('an answer without a handler', 'status 200', [request]))
  }
  return found
}

/** Faults that a client notices. */
const FELT = ANY_FAULT.filter(what => what !== 'lost')
/** So long a busy machine alone does not keep every answer beyond its deadline. */
const ALONE_MS = 1_000

/**
 * Soon after a fault the store decides again: of what a process asks of a key, not everything is decided by the failure
 * policy for a second.
 */
function ofFailures(history: History, subject: Subject, decisions: readonly Decided[]): Violation[] {
  const runs = new Map<string, Decided[]>()
  for (const decision of decisions) {
    const { process, key, askedAt, source, allowed } = decision
    if (source === 'memory' || allowed === undefined) continue
    const by = `${process} ${key}`
    const run = runs.get(by) ?? []
    const isAlone = source === 'fallback' || source === 'open' || source === 'closed'
    if (!isAlone || isNearFault(history, decision)) {
      runs.set(by, [])
      continue
    }
    runs.set(by, [...run, decision])
    if (run.length < 3 || askedAt - run[0].askedAt < ALONE_MS) continue
    const last = Math.max(...history.faults.filter(({ from }) => from < run[0].askedAt).map(({ until }) => until))
    const ago =
      last > 0 ? `the last fault had ended ${(run[0].askedAt - last).toFixed(0)} ms before` : 'without a fault'
    const said = `decided by ${source} for ${(askedAt - run[0].askedAt).toFixed(0)} ms, ${ago}`
    const place = { subject: subject.name, key, from: run[0].askedAt, until: endOf(decision) }
    return [{ rule: 'the store does not decide', ...place, said, operations: run }]
  }
  return []
}

/** Whether the promised time after a fault is not over. */
function isNearFault(history: History, decision: Decided): boolean {
  return FELT.some(what => {
    const from = decision.askedAt - RECOVERY_MS[what] - (history.slackMs ?? SLACK_MS)
    const near = faultsIn(history, [what], from, endOf(decision))
    return near.some(({ process }) => (process ?? decision.process) === decision.process)
  })
}

/** In a fault a process grants at most its share of each window. */
function localShares(
  history: History,
  subject: Subject,
  all: readonly Operation[],
  decisions: readonly Decided[],
): Violation[] {
  const found: Violation[] = []
  const settled = new Map(all.flatMap(one => (one.op === 'settle' ? [[one.of, one.units ?? 0] as const] : [])))
  const kept = ({ id, cost }: Decided) => Math.min(cost, settled.get(id) ?? cost)
  const changed = new Set(all.flatMap(one => (one.op === 'refund' || one.op === 'reset' ? [one.key] : [])))
  const share = subject.localShare ?? 1
  const lists = all.flatMap(one => (one.op === 'limits' ? [one.limits] : []))
  // Of each number, rounded down, but at least 1.
  const part = (units: number) => Math.max(1, Math.floor(units * share + 1e-9))
  const limits = (subject.limits ?? []).map((limit, i) => ({
    ...limit,
    quota: part(Math.max(limit.quota, ...lists.map(list => list[i].quota))),
    burst: part(limit.burst),
  }))
  const groups = new Map<string, Decided[]>()
  for (const decision of decisions) {
    if (decision.source !== 'fallback' || !decision.allowed || !isAnswered(decision) || changed.has(decision.key))
      continue
    const group = `${decision.process} ${decision.key}`
    groups.set(group, [...(groups.get(group) ?? []), decision])
  }
  for (const grants of groups.values()) {
    grants.sort((one, two) => one.askedAt - two.askedAt)
    for (const [i, first] of grants.entries()) {
      for (const limit of limits) {
        const inside = grants.slice(i).filter(grant => endOf(grant) + WHOLE_MS < first.askedAt + limit.windowMs)
        const units = inside.reduce((sum, grant) => sum + kept(grant), 0)
        const allowed = Math.floor(most(limit, limit.windowMs))
        // Alone it counts by its own clock, which may be set.
        const clocks = faultsIn(history, ['clock'], first.askedAt, first.askedAt + limit.windowMs)
        if (units <= allowed || clocks.some(({ process }) => process === first.process)) continue
        const { key } = first
        const place = { subject: subject.name, key, from: first.askedAt, until: endOf(inside[inside.length - 1]) }
        const said = `${first.process} alone granted ${units} units; its share is ${allowed}`
        found.push({ rule: 'over the local share', ...place, said, operations: inside })
        break
      }
      if (found.length > 0) break
    }
  }
  return found
}

/**
 * Every decision is there within its deadline, `acquire` within its timeout; the first of a process may wait for the
 * connection.
 */
function deadlines(
  history: History,
  subject: Subject,
  decisions: readonly Decided[],
  connectedAt: ReadonlyMap<string, number>,
): Violation[] {
  const found: Violation[] = []
  for (const decision of decisions) {
    const { askedAt, answeredAt, process, op, key } = decision
    const stood = faultsIn(history, ['stopped', 'killed'], askedAt, answeredAt ?? history.endedAt)
    if (stood.some(fault => fault.process === process)) continue
    const isFirst = askedAt < (connectedAt.get(process) ?? Number.POSITIVE_INFINITY)
    const deadlineMs = isFirst ? Math.max(CONNECT_MS, subject.deadlineMs) : subject.deadlineMs
    const withinMs = op === 'acquire' ? (decision.timeoutMs ?? 0) : deadlineMs
    const tookMs = (answeredAt ?? history.endedAt) - askedAt - (decision.starvedMs ?? 0)
    if (tookMs <= withinMs + (history.slackMs ?? SLACK_MS)) continue
    const rule = answeredAt === undefined ? 'never answered' : 'answered too late'
    const place = { subject: subject.name, key, from: askedAt, until: answeredAt ?? history.endedAt }
    found.push({ rule, ...place, said: `took ${tookMs.toFixed(0)} ms of ${withinMs}`, operations: [decision] })
  }
  return found
}
