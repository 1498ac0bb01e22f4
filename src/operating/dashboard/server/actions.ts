import { formatDuration, parseOption } from '../../../limiter/core/duration.js'
import { PolicyError, shown } from '../../../limiter/core/errors.js'
import { type Change, changeId, livePolicy, policyText } from '../../live/live-limit.js'
import { plural, policyWords, span, windowWords } from '../look/format.js'
import type { LimitEntry } from '../records.js'
import { moment } from '../shapes.js'
import type { ChangeRequest, ChangeResult } from '../view.js'
import type { NotedChange, PlainChange } from './change-history.js'
import type { DashboardState } from './dashboard-state.js'
import type { KnownLimiter } from './limiters.js'
import { hidden } from './page-views.js'

/** The result of a change, and its entry in the history. */
interface Outcome {
  readonly text: string
  readonly change: Omit<NotedChange, 'user' | 'act'>
}

const DAY_MS = 86_400_000
const LONGEST_BLOCK_MS = 365 * DAY_MS

/**
 * Carries out a change and records it in the history. Throws `PolicyError` for an invalid change, `StoreError` when
 * Redis fails.
 */
export async function carryOut(state: DashboardState, given: unknown, user: string | undefined): Promise<ChangeResult> {
  const act = await plainAct(state, given)
  await state.refresh()
  state.checkRedis()
  // What is on its way may have been read before the change, also one that fails halfway.
  const { text, change } = await outcomeOf(state, act, user).finally(() => state.forget())
  const noted = await state.changes.note({ ...change, act, user }).then(
    () => '',
    (error: Error) => ` The history does not have it: ${error.message}.`,
  )
  const { undo, until } = change
  return {
    text: text + noted,
    until,
    undo: undo && hidden(state, undo),
  }
}

async function outcomeOf(state: DashboardState, act: PlainChange, user: string | undefined): Promise<Outcome> {
  switch (act.act) {
    case 'reset':
    case 'block':
    case 'unblock':
    case 'restore-block':
      return ofKey(state, act)
    case 'set-limit':
    case 'clear-limit':
    case 'restore-limit':
      return ofLimit(state, act, user)
    case 'set-rate':
      return ofRate(state, act)
    case 'force-release': {
      const ended = await state.objects.semaphore(act.name).forceRelease(text(act.lease, 'lease'))
      if (!ended) throw new PolicyError(`the lease ${shown(act.lease)} of ${act.name} has ended already`)
      return {
        text: `A lease of ${act.name} was ended.`,
        change: { what: 'Lease ended by force', subject: act.name, before: act.lease },
      }
    }
    case 'pause':
    case 'resume':
      return ofQueue(state, act)
    case 'cancel-message':
    case 'deliver-message':
      return ofMessage(state, act)
    case 'redrive':
    case 'discard':
      return ofLetters(state, act)
    case 'show-key': {
      const key = text(act.key, 'key')
      return { text: `The key is ${key}`, change: { what: 'Key shown', subject: 'one key', key } }
    }
    default:
      throw new PolicyError(
        `act ${shown((act as { act?: unknown }).act)}: expected one of the dashboard's own, like "block"`,
      )
  }
}

async function ofKey(
  state: DashboardState,
  act: Extract<PlainChange, { act: 'reset' | 'block' | 'unblock' | 'restore-block' }>,
): Promise<Outcome> {
  const limiter = limiterOf(state, act.limiter)
  const key = text(act.key, 'key')
  const subject = limiter.name
  const name = state.show(key).text
  if (act.act === 'reset') {
    await state.limiters.reset(limiter, key)
    return { text: `${subject} has forgotten what ${name} spent.`, change: { what: 'Key reset', subject, key } }
  }
  const now = () => state.reports.now
  const before = await state.limiters.blockedUntil(limiter, key)
  if (act.act === 'restore-block' && !isSameEnd(before, act.left, now())) {
    throw new PolicyError(`${subject} has another block of ${name} by now: look at it, and change it anew`)
  }
  const wanted = act.act === 'restore-block' ? (act.before ?? 0) : act.act === 'block' ? now() + durationOf(act.for) : 0
  const forMs = Math.ceil(wanted - now())
  if (forMs > 0) await state.limiters.block(limiter, key, forMs)
  else await state.limiters.unblock(limiter, key)
  const left = await state.limiters.blockedUntil(limiter, key)
  const undo: PlainChange = {
    act: 'restore-block',
    limiter: subject,
    key,
    before,
    left,
  }
  if (left === undefined) {
    return {
      text: `${subject} does not block ${name} any more.`,
      change: { what: 'Block ended', subject, key, undo: before === undefined ? undefined : undo },
    }
  }
  return {
    text: `${subject} refuses ${name} for ${span(forMs)}.`,
    change: { what: `Blocked for ${span(forMs)}`, subject, key, until: left, undo },
  }
}

function durationOf(given: string): number {
  const forMs = parseOption(given, 'block for')
  if (forMs <= LONGEST_BLOCK_MS) return forMs
  throw new PolicyError(`block for ${shown(given)}: expected at most a year, like "1h"`)
}

/** Whether a block is the one that was left; both may be over. */
function isSameEnd(end: number | undefined, left: number | undefined, now: number): boolean {
  if (end === undefined) return left === undefined || left <= now
  return left !== undefined && Math.abs(end - left) < 1000
}

async function ofLimit(
  state: DashboardState,
  act: Extract<PlainChange, { act: 'set-limit' | 'clear-limit' | 'restore-limit' }>,
  user: string | undefined,
): Promise<Outcome> {
  const { live } = state
  const limiter = text(act.limiter, 'limiter')
  const key = act.key === undefined ? undefined : text(act.key, 'key')
  const ofKey = key === undefined ? {} : { key }
  await live.refresh(true)
  const who = key === undefined ? limiter : `${limiter} for ${state.show(key).text}`
  const words = async () =>
    (key && (await live.ownViews([limiter], key)).get(limiter)?.words) || policyWords(live.policy(limiter) ?? [])
  const [stateBefore, before] = [await live.state(limiter, key), await words()]
  const made = await changeLimit(state, act, { limiter, who, by: user, ...ofKey })
  await live.refresh(true)
  const after = await words()
  const until = (await live.state(limiter, key)).temporary?.untilMs
  const last = made[made.length - 1]
  const undo: PlainChange = { act: 'restore-limit', limiter, before: stateBefore, change: changeId(last), ...ofKey }
  const isCleared = last.given === undefined
  return {
    text: isCleared ? `${who} is back to ${after}.` : `${who} now allows ${after}.`,
    change: {
      what: isCleared ? 'Live limit cleared' : 'Live limit set',
      subject: limiter,
      before,
      after,
      live: made.map(changeId),
      undo,
      until,
      ...ofKey,
    },
  }
}

/** Makes one change, or those that put back what was set. */
async function changeLimit(
  { live }: DashboardState,
  act: Extract<PlainChange, { act: 'set-limit' | 'clear-limit' | 'restore-limit' }>,
  { limiter, key, who, by }: { limiter: string; key?: string; who: string; by: string | undefined },
): Promise<Change[]> {
  const options = { by, ...(key !== undefined && { key }) }
  if (act.act === 'clear-limit') return [await live.change(limiter, null, options)]
  if (act.act === 'set-limit') {
    const given = live.given(limiter)
    if (act.over !== undefined && given !== undefined && policyText(given) !== act.over) {
      throw new PolicyError(
        `Meanwhile the limits of ${limiter} are ${policyText(given)}: look at them, and change them anew`,
      )
    }
    const afterMs = act.for === undefined || act.for === '' ? undefined : parseOption(act.for, 'until')
    return [await live.change(limiter, text(act.policy, 'policy'), { ...options, end: { afterMs } })]
  }
  const newest = live.newest(limiter, key)
  if (newest === undefined || changeId(newest) !== act.change) {
    const author = newest?.by === undefined ? '' : ` by ${newest.by}`
    throw new PolicyError(`${who} was changed again${author} since: look at the changes, and change it anew`)
  }
  const { standing = null, temporary } = act.before ?? {}
  // Both before the first is set: nothing is left half done.
  if (temporary !== undefined) {
    livePolicy(limiter, temporary.policy)
    if (moment(temporary.untilMs) === undefined) {
      throw new PolicyError(`untilMs ${shown(temporary.untilMs)}: expected ms since the epoch`)
    }
  }
  const made = [await live.change(limiter, standing, options)]
  // A temporary limit keeps its end; one that has ended meanwhile ends at once.
  if (temporary !== undefined) {
    const end = { atMs: temporary.untilMs }
    made.push(await live.change(limiter, temporary.policy, { ...options, end }))
  }
  return made
}

async function ofRate(state: DashboardState, act: Extract<PlainChange, { act: 'set-rate' }>): Promise<Outcome> {
  const { name, rate, interval, over } = act
  const shared = state.objects.rate(text(name, 'name'))
  const config = await shared.getConfig()
  if (config === null)
    throw new PolicyError(`the rate ${shown(name)} was never set: expected trySetRate() in the service first`)
  const { mode, keepAliveMs } = config
  if (over !== undefined && (over.rate !== config.rate || over.intervalMs !== config.intervalMs)) {
    const now = `${config.rate} per ${windowWords(config.intervalMs)}`
    throw new PolicyError(`${name} was changed again since, to ${now}: set it anew`)
  }
  await shared.setRate(
    { rate, interval, mode, ...(keepAliveMs !== null && { keepAlive: keepAliveMs }) },
    { keepState: true },
  )
  const before = `${config.rate} per ${windowWords(config.intervalMs)}`
  const set = { rate, intervalMs: parseOption(interval, 'interval') }
  const after = `${rate} per ${windowWords(set.intervalMs)}`
  const undo: PlainChange = {
    act: 'set-rate',
    name,
    rate: config.rate,
    interval: formatDuration(config.intervalMs),
    over: set,
  }
  return {
    text: `${name} grants ${after}.`,
    change: { what: 'Rate set', subject: name, before, after, undo },
  }
}

async function ofQueue(
  state: DashboardState,
  { act, name }: Extract<PlainChange, { act: 'pause' | 'resume' }>,
): Promise<Outcome> {
  const queue = state.objects.queue(text(name, 'name'))
  await queue[act]()
  const paused = act === 'pause'
  return {
    text: paused ? `${name} delivers nothing until it is resumed.` : `${name} delivers again.`,
    change: {
      what: paused ? 'Queue paused' : 'Queue resumed',
      subject: name,
      undo: { act: paused ? 'resume' : 'pause', name },
    },
  }
}

async function ofMessage(
  state: DashboardState,
  { act, name, id }: Extract<PlainChange, { act: 'cancel-message' | 'deliver-message' }>,
): Promise<Outcome> {
  const queue = state.objects.queue(text(name, 'name'))
  const isCancel = act === 'cancel-message'
  const done = isCancel ? await queue.cancel(text(id, 'id')) : await queue.reschedule(text(id, 'id'), 0)
  if (!done) throw new PolicyError(`the message ${shown(id)} of ${name} does not wait any more: look it up again`)
  return {
    text: isCancel ? `The message ${id} of ${name} is cancelled.` : `The message ${id} of ${name} is due now.`,
    change: { what: isCancel ? 'Message cancelled' : 'Message made due', subject: name, after: id },
  }
}

async function ofLetters(
  state: DashboardState,
  { act, name, ids }: Extract<PlainChange, { act: 'redrive' | 'discard' }>,
): Promise<Outcome> {
  if (ids !== undefined && !(Array.isArray(ids) && ids.every(id => typeof id === 'string'))) {
    throw new PolicyError(`ids ${shown(ids)}: expected ids of dead letters, like ["order-17"]`)
  }
  const queue = state.objects.queue(text(name, 'name'))
  const count = await queue[act](ids === undefined ? {} : { ids })
  const words = plural(count, 'dead letter')
  const after = ids?.length === 1 ? ids[0] : words
  if (act === 'discard') {
    return {
      text: `${words} of ${name} ${count === 1 ? 'is' : 'are'} gone for good.`,
      change: { what: 'Dead letters discarded', subject: name, after },
    }
  }
  return {
    text: `${words} of ${name} ${count === 1 ? 'is' : 'are'} delivered again.`,
    change: { what: 'Dead letters redriven', subject: name, after },
  }
}

const STORE_WORDS: Readonly<Record<LimitEntry['store'], string>> = {
  redis: 'another Redis',
  elsewhere: 'Redis under another prefix',
  memory: 'the memory of its processes',
  postgres: 'PostgreSQL',
  sqlite: 'SQLite',
  own: 'a store of its own',
}

function limiterOf(state: DashboardState, name: unknown): KnownLimiter {
  const known = state.summary.known.find(limiter => limiter.name === name)
  if (known === undefined) throw new PolicyError(`limiter ${shown(name)}: nobody has reported a limiter of this name`)
  if (known.shared) return known
  const [{ store }] = known.entries
  throw new PolicyError(
    `limiter ${shown(name)}: it does not count in this Redis but in ${STORE_WORDS[store]}, so its keys cannot be ` +
      'changed from here',
  )
}

/** What was asked for, with the key in place of the ref that stood for it. */
async function plainAct(state: DashboardState, given: unknown): Promise<PlainChange> {
  if (typeof given !== 'object' || given === null || typeof (given as ChangeRequest).act !== 'string') {
    throw new PolicyError(`given ${shown(given)}, expected an act, like { act: 'pause', name: 'mail' }`)
  }
  const { ref, ...act } = given as { ref?: unknown; act: string }
  if (ref === undefined) return act as PlainChange
  const key = await state.keyOf(text(ref, 'ref'))
  if (key !== undefined) return { ...act, key } as PlainChange
  throw new PolicyError('this key is not among those that are shown any more: look it up by its name')
}

function text(given: unknown, what: string): string {
  if (typeof given === 'string' && given !== '') return given
  throw new PolicyError(`${what} ${shown(given)}: expected a text that is not empty`)
}
