import {
  type Changed,
  type Decided,
  endOf,
  faultsIn,
  type History,
  isAnswered,
  type Limit,
  type Operation,
  RECOVERY_MS,
  type Replaced,
  SLACK_MS,
  type Subject,
  type Violation,
  WHOLE_MS,
} from './history.js'

const EXACT = new Set(['store', 'lease'])
/** After a change of limits has been answered, processes follow within this time. */
const FOLLOWED_MS = 1_000

/** After its deadline a decision that the failure policy has taken over may still be charged, for so long. */
const CHARGED_LATE_MS = 100

/** The store may have charged it, whatever was answered. */
const isUnsure = (one: Decided): boolean =>
  !isAnswered(one) || !(EXACT.has(one.source ?? '') || one.source === 'memory')

/** By when the store has charged it. */
const chargedBy = (one: Decided): number => Math.max(endOf(one), isUnsure(one) ? one.askedAt + CHARGED_LATE_MS : 0)

/** What happened to one key of one limiter or rate, in the order in which it was asked. */
class KeyHistory {
  readonly decisions: Decided[] = []
  readonly changes: Changed[] = []
  /** Longer spans say nothing that shorter ones do not. */
  readonly longestMs: number
  readonly #settled = new Map<number, number>()
  readonly #longestCallMs: number

  constructor(
    readonly history: History,
    readonly subject: Subject,
    readonly key: string,
    operations: readonly Operation[],
    readonly replaced: readonly Replaced[],
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
    this.longestMs = Math.max(...all.map(({ windowMs }) => windowMs)) * 3
    this.#longestCallMs = this.decisions.reduce((most, one) => Math.max(most, endOf(one) - one.askedAt), 0)
  }

  /** The decisions that were asked before `until` and over after `from`. */
  decisionsIn(from: number, until: number): Decided[] {
    const first = this.#indexAt(from - this.#longestCallMs)
    return this.decisions.slice(first, this.#indexAt(until)).filter(one => endOf(one) > from)
  }

  /** Of the first decision that was asked at this moment or later. */
  #indexAt(at: number): number {
    let [low, high] = [0, this.decisions.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.decisions[middle].askedAt < at) low = middle + 1
      else high = middle
    }
    return low
  }

  /** The units that a grant has surely kept. */
  keptBy = (decision: Decided): number => Math.min(decision.cost, this.#settled.get(decision.id) ?? decision.cost)

  /** The limits that may have been in force in a span, one list for each. */
  limitsIn(from: number, until: number): ReadonlyArray<readonly Limit[]> {
    const changes = this.replaced
    if (changes.length === 0) return [this.subject.limits ?? []]
    const before = changes.findLastIndex(change => endOf(change) + FOLLOWED_MS <= from)
    const inForce = changes.slice(Math.max(0, before)).filter(change => change.askedAt < until)
    const first = before < 0 ? [this.subject.limits ?? []] : []
    return [...first, ...inForce.map(({ limits }) => limits)]
  }

  /** What may have been given back in a span. */
  returnedIn(from: number, until: number): number {
    let units = 0
    for (const change of this.changes) {
      if (change.op !== 'refund' || change.askedAt >= until || endOf(change) <= from) continue
      units += change.units ?? 0
    }
    return units
  }

  /** How often the key may have begun anew in a span: by a reset, or because a server lost what it knew. */
  beginningsIn(from: number, until: number): number {
    const resets = this.changes.filter(({ op, askedAt }) => op === 'reset' && askedAt < until)
    const lost = faultsIn(this.history, ['lost', 'failover', 'moved'], from, until)
    return resets.filter(reset => endOf(reset) > from).length + lost.length
  }

  violation(rule: string, said: string, operations: readonly Operation[]): Violation {
    const from = Math.min(...operations.map(({ askedAt }) => askedAt))
    const until = Math.max(...operations.map(endOf))
    return { rule, subject: this.subject.name, key: this.key, from, until, said, operations }
  }
}

/** All that is promised of limiters and shared rates. */
export function checkLimits(history: History): Violation[] {
  const found: Violation[] = []
  for (const subject of history.subjects) {
    if (subject.limits === undefined) continue
    const all = history.operations.filter(operation => operation.subject === subject.name)
    const replaced = all.filter((operation): operation is Replaced => operation.op === 'limits')
    const byKey = new Map<string, Operation[]>()
    for (const operation of all) {
      if (operation.op === 'limits') continue
      byKey.set(operation.key, [...(byKey.get(operation.key) ?? []), operation])
    }
    for (const [key, operations] of byKey) {
      operations.sort((one, two) => one.askedAt - two.askedAt)
      const of = new KeyHistory(history, subject, key, operations, replaced)
      found.push(...overTheLimit(of), ...refusedInVain(of), ...tooSoon(of), ...tooMuchLeft(of))
      found.push(...duringBlocks(of), ...ofRequests(of))
    }
    const decisions = all.filter((operation): operation is Decided => 'cost' in operation)
    found.push(...ofFailures(history, subject, decisions), ...localShares(subject, all, decisions))
    found.push(...deadlines(history, subject, decisions))
  }
  return found
}

/** The most units of a span, whatever the moment at which it begins. */
function most(limit: Limit, spanMs: number): number {
  const { algorithm, quota, windowMs, burst } = limit
  if (algorithm === 'sliding-window') return Math.ceil(spanMs / windowMs) * quota
  if (algorithm === 'token-bucket' || algorithm === 'leaky-bucket') return burst + (quota * spanMs) / windowMs
  // A span of less than a window lies in two windows at most.
  return (Math.ceil(spanMs / windowMs) + 1) * quota
}

/** No span has more units than each limit allows: of grants that surely lie in it, by their times of asking and answering. */
function overTheLimit(of: KeyHistory): Violation[] {
  const isExact = (one: Decided) => one.allowed && isAnswered(one) && EXACT.has(one.source ?? '')
  let worst: Violation | undefined
  let previous: Decided | undefined
  for (const first of of.decisions.filter(isExact)) {
    const from = first.askedAt
    const following = of.decisionsIn(from, from + of.longestMs).filter(one => isExact(one) && one.askedAt >= from)
    following.sort((one, two) => endOf(one) - endOf(two))
    let units = 0
    for (const [i, grant] of following.entries()) {
      units += of.keptBy(grant)
      const until = endOf(grant)
      if (worst !== undefined && until - from >= worst.until - worst.from) break
      const allowed = allowedIn(of, previous, from, until)
      if (units <= allowed) continue
      const said = `${units} units in ${(until - from).toFixed(0)} ms; at most ${allowed.toFixed(1)} are allowed`
      worst = of.violation('over the limit', said, following.slice(0, i + 1))
      break
    }
    previous = first
  }
  return worst === undefined ? [] : [worst]
}

function allowedIn(of: KeyHistory, previous: Decided | undefined, from: number, until: number): number {
  const anew = 1 + of.beginningsIn(from, until)
  const longer = until + WHOLE_MS
  const bounds = of.limitsIn(from, until).map(limits => {
    return Math.min(...limits.map(limit => boundOf(limit, previous, from, longer) + (anew - 1) * limit.burst))
  })
  return Math.max(...bounds) + of.returnedIn(from, until)
}

function boundOf(limit: Limit, previous: Decided | undefined, from: number, until: number): number {
  const startsHere = previous === undefined || endOf(previous) + limit.windowMs <= from
  // A window counted from its first request: after a whole window without any, the next begins with the span.
  if (limit.algorithm === 'fixed-window' && startsHere) return Math.ceil((until - from) / limit.windowMs) * limit.quota
  return most(limit, until - from)
}

/** A refusal by the store has a reason: refused requests spend nothing, and a decision under several limits spends from all or from none. */
function refusedInVain(of: KeyHistory): Violation[] {
  const found: Violation[] = []
  const { history, subject, changes } = of
  // Those who wait stand before; units on leases of other processes refuse for a while.
  if (subject.leased || of.decisions.some(({ op }) => op === 'acquire')) return []
  for (const refused of of.decisions) {
    if (refused.allowed !== false || refused.source !== 'store' || !isAnswered(refused)) continue
    const all = of.limitsIn(refused.askedAt - of.longestMs, endOf(refused))
    const blocks = changes.some(({ op, askedAt }) => op === 'block' && askedAt < endOf(refused))
    const charges = changes.some(({ op, units }) => op === 'charge' || (op === 'settle' && units !== undefined))
    if (blocks || charges || all.length !== 1 || refused.retryAfterMs === Number.POSITIVE_INFINITY) continue
    const hasReason = all[0].some(limit => mayBeSpent(of, limit, refused) + refused.cost > limit.burst)
    if (!hasReason && faultsIn(history, ['moved'], refused.askedAt - of.longestMs, endOf(refused)).length === 0) {
      found.push(of.violation('refused in vain', `a request of ${refused.cost} fits every limit`, [refused]))
    }
  }
  return found
}

/** The most that may have been spent of a limit when a request was decided. */
function mayBeSpent(of: KeyHistory, { algorithm, quota, windowMs, burst }: Limit, refused: Decided): number {
  const isBucket = algorithm === 'token-bucket' || algorithm === 'leaky-bucket'
  const drainMs = (burst * windowMs) / quota
  const lookMs = isBucket ? 5 * drainMs : algorithm === 'sliding-counter' ? 2 * windowMs : windowMs
  const before = of
    .decisionsIn(refused.askedAt - lookMs - CHARGED_LATE_MS, endOf(refused))
    .filter(one => one.id !== refused.id && (one.allowed || isUnsure(one)) && chargedBy(one) > refused.askedAt - lookMs)
  const units = (some: readonly Decided[]) => some.reduce((sum, { cost }) => sum + cost, 0)
  if (!isBucket) return units(before)
  // The level is highest if the bucket was empty just before one of them; or it was full when the look begins.
  const drained = (ms: number) => (Math.max(0, ms) * quota) / windowMs
  const levels = before.map(first => {
    return units(before.filter(next => chargedBy(next) >= first.askedAt)) - drained(refused.askedAt - chargedBy(first))
  })
  return Math.max(0, burst - drained(lookMs) + units(before), ...levels)
}

/** `retryAfterMs` is true: nothing of that cost is granted sooner, unless something was given back. */
function tooSoon(of: KeyHistory): Violation[] {
  const found: Violation[] = []
  // Leases give back what they have not spent, whenever they end.
  if (of.subject.leased) return []
  const exact = of.decisions.filter(one => isAnswered(one) && EXACT.has(one.source ?? ''))
  for (const refused of exact) {
    const { retryAfterMs = 0, cost } = refused
    if (refused.allowed !== false || refused.source !== 'store' || retryAfterMs === 0) continue
    const granted = exact.find(next => {
      const later = next.askedAt >= endOf(refused) && next.source === 'store' && next.allowed && next.cost >= cost
      return later && endOf(next) + WHOLE_MS < refused.askedAt + retryAfterMs
    })
    if (granted === undefined) continue
    const [from, until] = [refused.askedAt, endOf(granted)]
    const returned = of.changes.some(({ askedAt, op }) => askedAt < until && op !== 'charge' && op !== 'block')
    if (returned || of.beginningsIn(from, until) > 0 || of.limitsIn(from, until).length > 1) continue
    const said = `refused for ${retryAfterMs.toFixed(0)} ms, and granted ${(until - from).toFixed(0)} ms later`
    found.push(of.violation('granted sooner than said', said, [refused, granted]))
  }
  return found
}

/** `remaining` never names units that were surely spent. */
function tooMuchLeft(of: KeyHistory): Violation[] {
  const found: Violation[] = []
  const grants = of.decisions.filter(grant => grant.allowed && isAnswered(grant) && EXACT.has(grant.source ?? ''))
  for (const told of grants) {
    if (told.remaining === undefined || told.source !== 'store') continue
    const lists = of.limitsIn(told.askedAt, endOf(told))
    const limits = lists.flat().filter(({ algorithm }) => algorithm === 'sliding-window')
    if (lists.length !== 1 || limits.length !== lists[0].length || of.changes.length > 0) continue
    const from = endOf(told) + WHOLE_MS - Math.min(...limits.map(({ windowMs }) => windowMs))
    if (of.beginningsIn(from, endOf(told)) > 0) continue
    const spent = grants.filter(grant => grant.askedAt > from && endOf(grant) < told.askedAt)
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
    const ended = of.changes.find(({ op, askedAt }) => (op === 'unblock' || op === 'reset') && askedAt > block.askedAt)
    const until = Math.min(block.askedAt + (block.blockMs ?? 0), ended?.askedAt ?? Number.POSITIVE_INFINITY)
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

/** The failure policy decides only in a fault, and the store decides again soon after it. */
function ofFailures(history: History, subject: Subject, decisions: readonly Decided[]): Violation[] {
  const found: Violation[] = []
  for (const decision of decisions) {
    if (decision.source !== 'fallback' && decision.source !== 'open' && decision.source !== 'closed') continue
    const { askedAt } = decision
    const reasons = history.faults.filter(
      ({ what, process }) => what !== 'lost' && (process ?? decision.process) === decision.process,
    )
    const near = reasons.some(({ from, until }) => from < endOf(decision) && until + RECOVERY_MS > askedAt)
    if (near) continue
    const last = Math.max(...reasons.filter(({ from }) => from < askedAt).map(({ until }) => until))
    const ago = last > 0 ? `the last fault ended ${(askedAt - last).toFixed(0)} ms ago` : 'there was no fault'
    const { key } = decision
    const said = `decided by ${decision.source}; ${ago}`
    const place = { subject: subject.name, key, from: askedAt, until: endOf(decision) }
    found.push({ rule: 'the store does not decide', ...place, said, operations: [decision] })
    break
  }
  return found
}

/** In a fault a process grants at most its share of each window. */
function localShares(subject: Subject, all: readonly Operation[], decisions: readonly Decided[]): Violation[] {
  const found: Violation[] = []
  const settled = new Map(all.flatMap(one => (one.op === 'settle' ? [[one.of, one.units ?? 0] as const] : [])))
  const kept = ({ id, cost }: Decided) => Math.min(cost, settled.get(id) ?? cost)
  const changed = new Set(all.flatMap(one => (one.op === 'refund' || one.op === 'reset' ? [one.key] : [])))
  const share = subject.localShare ?? 1
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
      for (const limit of subject.limits ?? []) {
        const inside = grants.slice(i).filter(grant => endOf(grant) + WHOLE_MS < first.askedAt + limit.windowMs)
        const units = inside.reduce((sum, grant) => sum + kept(grant), 0)
        const allowed = Math.max(1, Math.floor(most(limit, limit.windowMs) * share))
        if (units <= allowed) continue
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

/** Every decision is there within its deadline, `acquire` within its timeout. */
function deadlines(history: History, subject: Subject, decisions: readonly Decided[]): Violation[] {
  const found: Violation[] = []
  for (const decision of decisions) {
    const { askedAt, answeredAt, process, op, key } = decision
    const stood = faultsIn(history, ['stopped', 'killed'], askedAt, answeredAt ?? history.endedAt)
    if (stood.some(fault => fault.process === process)) continue
    const withinMs = op === 'acquire' ? (decision.timeoutMs ?? 0) : subject.deadlineMs
    const tookMs = (answeredAt ?? history.endedAt) - askedAt
    if (tookMs <= withinMs + SLACK_MS) continue
    const rule = answeredAt === undefined ? 'never answered' : 'answered too late'
    const place = { subject: subject.name, key, from: askedAt, until: answeredAt ?? history.endedAt }
    found.push({ rule, ...place, said: `took ${tookMs.toFixed(0)} ms of ${withinMs}`, operations: [decision] })
  }
  return found
}
