import {
  ANEW,
  ANY_FAULT,
  type Decided,
  endOf,
  faultsIn,
  type Held,
  type History,
  isAnswered,
  type Message,
  type Operation,
  type Subject,
  type Violation,
} from './history.js'

/** On real machines, and soon after a fault: see `History.behindMs`. */
const BEHIND_MS = 1_500
/** A message that is due is delivered within so long, whatever faults there are. */
const DELIVERED_MS = 15_000
/** And within so long where nothing fails, though the server's clock is set. */
const ON_TIME_MS = 3_000
const BUT_CLOCKS = ANY_FAULT.filter(what => what !== 'clock')

const place = (subject: Subject, key: string, operations: readonly Operation[]) => ({
  subject: subject.name,
  key,
  from: Math.min(...operations.map(({ askedAt }) => askedAt)),
  until: Math.max(...operations.map(endOf)),
  operations,
})

/** All that is promised of those who wait: turns, permits, messages. */
export function checkTurns(history: History): Violation[] {
  return history.subjects.flatMap(subject => {
    const all = history.operations.filter(operation => operation.subject === subject.name)
    if (subject.kind === 'semaphore') {
      const held = all as Held[]
      const asked = held.filter(({ op }) => op === 'hold')
      return [
        ...overPermits(history, subject, held),
        ...tokens(history, subject, asked),
        ...overtaken(history, subject, asked),
      ]
    }
    if (subject.kind === 'queue') return messages(history, subject, all as Message[])
    return overtaken(
      history,
      subject,
      all.filter((one): one is Decided => one.op === 'acquire'),
    )
  })
}

/** Those who wait for the same are served in the order in which they asked. */
function overtaken(history: History, subject: Subject, asked: ReadonlyArray<Decided | Held>): Violation[] {
  const size = (one: Decided | Held) => (one.op === 'hold' ? (one as Held).permits : (one as Decided).cost)
  const isServed = (one: Decided | Held) => {
    const { allowed, source } = one as Decided
    return isAnswered(one) && (one.op === 'hold' ? (one as Held).granted : allowed && source === 'store')
  }
  const waits = (one: Decided | Held) => isServed(one) || (one.timeoutMs ?? 0) > 0
  const { behindMs = BEHIND_MS } = history
  const inOrder = asked.filter(waits).sort((one, two) => one.askedAt - two.askedAt)
  for (const [i, first] of inOrder.entries()) {
    if (!isServed(first) && first.answeredAt !== undefined) continue
    const servedAt = first.answeredAt ?? history.endedAt
    if (faultsIn(history, ANY_FAULT, first.askedAt - (BEHIND_MS - behindMs), servedAt).length > 0) continue
    for (const later of inOrder.slice(i + 1)) {
      if (later.askedAt > servedAt) break
      if (later.key !== first.key || size(later) < size(first) || !isServed(later)) continue
      if (later.askedAt < first.askedAt + behindMs || endOf(later) > servedAt - behindMs) continue
      const said = `asked ${(later.askedAt - first.askedAt).toFixed(0)} ms later, served ${(servedAt - endOf(later)).toFixed(0)} ms sooner`
      return [{ rule: 'overtaken', ...place(subject, first.key, [first, later]), said }]
    }
  }
  return []
}

/**
 * At no moment are more permits held than there are: from the answer of a grant to the request of its release, or until
 * it ends by itself.
 */
function overPermits(history: History, subject: Subject, all: readonly Held[]): Violation[] {
  const { permits: most = 0, holdMs = Number.POSITIVE_INFINITY } = subject
  // The first one counts: who hears that its permits are lost says so, too.
  const released = new Map(
    all
      .filter(({ op }) => op === 'release')
      .reverse()
      .map(release => [release.of, release]),
  )
  const held = all.filter(one => one.op === 'hold' && one.granted && isAnswered(one))
  const holds = held.map(hold => {
    const stopped = history.faults.find(({ what, process, until }) => {
      return (what === 'stopped' || what === 'killed') && process === hold.process && until > endOf(hold)
    })
    // Also a clock that is set on ends leases.
    const lost = history.faults.find(
      ({ what, until }) => ['lost', 'failover', 'moved', 'clock'].includes(what) && until > hold.askedAt,
    )
    // Renewed while its process lives: a process that stands still may lose it a hold later, and a server that forgets
    // loses all.
    const ends = [released.get(hold.id)?.askedAt ?? history.endedAt, lost?.from ?? history.endedAt]
    if (stopped !== undefined) ends.push(stopped.from + holdMs * 0.5)
    return { hold, from: endOf(hold), until: Math.min(...ends) }
  })
  // What was lost before its holder heard of it was never held.
  const spans = holds.filter(({ from, until }) => until > from).sort((one, two) => one.from - two.from)
  let now: typeof spans = []
  for (const span of spans) {
    now = now.filter(({ hold, until }) => until > span.from && hold.key === span.hold.key).concat(span)
    const units = now.reduce((sum, { hold }) => sum + hold.permits, 0)
    if (units <= most) continue
    const said = `${units} permits are held, and there are ${most}`
    return [
      {
        rule: 'over the permits',
        ...place(
          subject,
          span.hold.key,
          now.map(({ hold }) => hold),
        ),
        said,
      },
    ]
  }
  return []
}

/** Fencing tokens are given once, and a later grant has a higher one. */
function tokens(history: History, subject: Subject, asked: readonly Held[]): Violation[] {
  const grants = asked.filter(one => one.granted && isAnswered(one) && one.token !== undefined)
  grants.sort((one, two) => endOf(one) - endOf(two))
  const seen = new Map<string, Held>()
  let highest: Held | undefined
  for (const grant of grants) {
    const { key, token = 0, askedAt } = grant
    if (highest !== undefined && faultsIn(history, ['lost', 'failover'], highest.askedAt, endOf(grant)).length > 0) {
      highest = undefined
      seen.clear()
    }
    const twice = seen.get(`${key} ${token}`)
    // One that was given before a loss may be heard of after it.
    const isAnew = faultsIn(history, ['lost', 'failover'], grant.askedAt, endOf(grant)).length > 0
    if (twice !== undefined && !isAnew) {
      return [{ rule: 'a token twice', ...place(subject, key, [twice, grant]), said: `token ${token}` }]
    }
    seen.set(`${key} ${token}`, grant)
    if (highest !== undefined && highest.key === key && askedAt > endOf(highest) && token < (highest.token ?? 0)) {
      const said = `token ${token} after ${highest.token}`
      return [{ rule: 'a token that is lower', ...place(subject, key, [highest, grant]), said }]
    }
    if (highest === undefined || token > (highest.token ?? 0)) highest = grant
  }
  return []
}

/**
 * Of a queue: no message lost or made up, none early or late, none again after its acknowledgement, no two handlers of
 * one delivery at once, attempts counted.
 */
function messages(history: History, subject: Subject, all: readonly Message[]): Violation[] {
  const found: Violation[] = []
  const byId = new Map<string, Message[]>()
  for (const message of all) byId.set(message.key, [...(byId.get(message.key) ?? []), message])
  const lost = (from: number, until: number) => faultsIn(history, ['lost', 'failover'], from, until).length > 0
  const turned = (from: number, until: number) => faultsIn(history, ANEW, from, until).length > 0
  for (const [id, operations] of byId) {
    const tell = (rule: string, said: string, some: readonly Operation[]) =>
      found.push({ rule, ...place(subject, id, some), said })
    const sent = operations.find(({ op }) => op === 'send')
    const handled = operations.filter(({ op }) => op === 'handle').sort((one, two) => one.askedAt - two.askedAt)
    const done = operations.find(one => one.op === 'acknowledge' && isAnswered(one))
    if (sent === undefined) {
      tell('a message that nobody sent', `delivered ${handled.length} times`, operations)
      continue
    }
    const dueBy = Math.min(endOf(sent) + (sent.delayMs ?? 0) + DELIVERED_MS, history.endedAt)
    if (handled.length === 0 && isAnswered(sent) && !turned(sent.askedAt, dueBy)) {
      tell('a lost message', 'sent, and never delivered', [sent])
    }
    const early = handled.find(({ askedAt }) => askedAt < sent.askedAt + (sent.delayMs ?? 0) - 1)
    if (early !== undefined && !turned(sent.askedAt, early.askedAt)) {
      tell('a message too early', `${(early.askedAt - sent.askedAt).toFixed(0)} of ${sent.delayMs} ms`, [sent, early])
    }
    const [first] = handled
    const isHeldUp = first && faultsIn(history, BUT_CLOCKS, sent.askedAt - ON_TIME_MS, first.askedAt).length > 0
    if (first && !isHeldUp && first.askedAt > endOf(sent) + (sent.delayMs ?? 0) + ON_TIME_MS) {
      tell('a message too late', `${(first.askedAt - endOf(sent)).toFixed(0)} of ${sent.delayMs} ms`, [sent, first])
    }
    // A server whose clock is set on ends visibilities that processes count on.
    const isAgain = ({ askedAt }: Message) => done && askedAt > endOf(done) && !lost(done.askedAt, askedAt)
    const again = handled.find(one => isAgain(one) && !turned(sent.askedAt, one.askedAt))
    if (done && again) tell('delivered after its acknowledgement', `attempt ${again.attempt}`, [done, again])
    for (const [i, next] of handled.slice(1).entries()) {
      const before = handled[i]
      const until = before.answeredAt ?? before.askedAt + (subject.holdMs ?? 0)
      // It may have been taken long before its handler began.
      const stood = faultsIn(history, ANY_FAULT, before.askedAt - (subject.holdMs ?? 0), next.askedAt)
      const concerns = stood.some(({ process }) => process === undefined || process === before.process)
      if (next.askedAt < until && !concerns) {
        tell('two handlers at once', `the first worked for ${(next.askedAt - before.askedAt).toFixed(0)} ms`, [
          before,
          next,
        ])
      }
      if ((next.attempt ?? 0) <= (before.attempt ?? 0) && !turned(sent.askedAt, next.askedAt)) {
        tell('attempts not counted', `attempt ${next.attempt} after ${before.attempt}`, [before, next])
      }
    }
  }
  return found
}
