import { formatDuration, parseOption } from '../../core/duration.js'
import { PolicyError, shown } from '../../core/errors.js'
import { parsePolicy } from '../../core/limit.js'
import { clock, plural, promiseWords, span, windowWords } from '../look/format.js'
import type { Act, Done } from '../view.js'
import type { NotedChange, PlainAct } from './changes.js'
import type { DashboardState } from './dashboard-state.js'
import type { KnownLimiter } from './limiters.js'
import { wordsOf } from './live-limits.js'
import { hidden } from './page-views.js'

/** The result of a change, and its entry in the history. */
interface Outcome {
  readonly text: string
  readonly change: Omit<NotedChange, 'user' | 'act'>
}

const DAY_MS = 86_400_000
const LONGEST_BLOCK_MS = 365 * DAY_MS

/** Carries out a change and records it in the history. Throws `PolicyError` for an invalid change, `StoreError` when Redis fails. */
export async function carryOut(state: DashboardState, given: unknown, user: string | undefined): Promise<Done> {
  const act = await plainAct(state, given)
  await state.refresh()
  state.checkRedis()
  const { text, change } = await outcomeOf(state, act, user)
  await state.changes.note({ ...change, act, ...(user !== undefined && { user }) })
  return { text, ...(change.undo !== undefined && { undo: hidden(state, change.undo) }) }
}

async function outcomeOf(state: DashboardState, act: PlainAct, user: string | undefined): Promise<Outcome> {
  switch (act.act) {
    case 'reset':
    case 'block':
    case 'unblock':
      return ofKey(state, act)
    case 'set-limit':
    case 'clear-limit':
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
    case 'redrive': {
      const ids = act.id === undefined ? undefined : [text(act.id, 'id')]
      const back = await state.objects.queue(act.name).redrive(ids === undefined ? {} : { ids })
      const words = plural(back, 'dead letter')
      return {
        text: `${words} of ${act.name} ${back === 1 ? 'is' : 'are'} delivered again.`,
        change: { what: 'Dead letters redriven', subject: act.name, after: act.id === undefined ? words : act.id },
      }
    }
    default:
      throw new PolicyError(
        `act ${shown((act as { act?: unknown }).act)}: expected one of the dashboard's own, like "block"`,
      )
  }
}

async function ofKey(
  state: DashboardState,
  act: Extract<PlainAct, { act: 'reset' | 'block' | 'unblock' }>,
): Promise<Outcome> {
  const limiter = limiterOf(state, act.limiter)
  const key = text(act.key, 'key')
  const subject = limiter.name
  const name = state.show(key).text
  if (act.act === 'reset') {
    await state.limiters.reset(limiter, key)
    return { text: `${subject} has forgotten what ${name} spent.`, change: { what: 'Key reset', subject, key } }
  }
  if (act.act === 'unblock') {
    const known = await state.limiters.look(limiter, key, state.reports.now)
    await state.limiters.unblock(limiter, key)
    const leftMs = (known?.blockedUntil ?? 0) - state.reports.now
    const undo: PlainAct | undefined =
      leftMs > 1000 ? { act: 'block', limiter: subject, key, for: formatDuration(Math.ceil(leftMs)) } : undefined
    return {
      text: `${subject} does not block ${name} any more.`,
      change: { what: 'Block ended', subject, key, ...(undo && { undo }) },
    }
  }
  const given = act.act === 'block' ? act.for : ''
  const forMs = parseOption(given, 'block for')
  if (forMs > LONGEST_BLOCK_MS) throw new PolicyError(`block for ${shown(given)}: expected at most a year, like "1h"`)
  await state.limiters.block(limiter, key, forMs)
  const until = state.reports.now + forMs
  return {
    text: `${subject} refuses ${name} for ${span(forMs)}, until ${clock(until)}.`,
    change: {
      what: `Blocked for ${span(forMs)}`,
      subject,
      key,
      until,
      undo: { act: 'unblock', limiter: subject, key },
    },
  }
}

async function ofLimit(
  state: DashboardState,
  act: Extract<PlainAct, { act: 'set-limit' | 'clear-limit' }>,
  user: string | undefined,
): Promise<Outcome> {
  const { live } = state
  const limiter = text(act.limiter, 'limiter')
  const key = act.key === undefined ? undefined : text(act.key, 'key')
  await live.refresh(true)
  const previous = await live.text(limiter, key)
  const inForce = key === undefined ? undefined : (await live.ownView(limiter, key))?.words
  const before = inForce ?? wordsOf(live.policy(limiter) ?? [])
  const who = key === undefined ? limiter : `${limiter} for ${state.show(key).text}`
  const undo: PlainAct =
    previous === null
      ? { act: 'clear-limit', limiter, ...(key !== undefined && { key }) }
      : { act: 'set-limit', limiter, policy: previous, ...(key !== undefined && { key }) }
  const noted = { subject: limiter, before, undo, ...(key !== undefined && { key }) }
  if (act.act === 'clear-limit') {
    await live.change(limiter, null, { key, by: user })
    await live.refresh(true)
    const after = wordsOf(live.policy(limiter) ?? [])
    return { text: `${who} is back to ${after}.`, change: { what: 'Live limit cleared', after, ...noted } }
  }
  const policy = text(act.policy, 'policy')
  const forMs = act.for === undefined || act.for === '' ? undefined : parseOption(act.for, 'until')
  await live.change(limiter, policy, { key, forMs, by: user })
  const after = parsePolicy(policy).map(promiseWords).join(' and ')
  const until = forMs === undefined ? undefined : state.reports.now + forMs
  return {
    text: `${who} now allows ${after}${forMs === undefined ? '' : `, for ${span(forMs)}`}.`,
    change: { what: 'Live limit set', after, ...(until !== undefined && { until }), ...noted },
  }
}

async function ofRate(state: DashboardState, act: Extract<PlainAct, { act: 'set-rate' }>): Promise<Outcome> {
  const { name, rate, interval } = act
  const shared = state.objects.rate(text(name, 'name'))
  const config = await shared.getConfig()
  if (config === null)
    throw new PolicyError(`the rate ${shown(name)} was never set: expected trySetRate() in the service first`)
  const { mode, keepAliveMs } = config
  await shared.setRate(
    { rate, interval, mode, ...(keepAliveMs !== null && { keepAlive: keepAliveMs }) },
    { keepState: true },
  )
  const before = `${config.rate} per ${windowWords(config.intervalMs)}`
  const after = `${rate} per ${windowWords(parseOption(interval, 'interval'))}`
  const undo: PlainAct = { act: 'set-rate', name, rate: config.rate, interval: formatDuration(config.intervalMs) }
  return { text: `${name} grants ${after}.`, change: { what: 'Rate set', subject: name, before, after, undo } }
}

async function ofQueue(
  state: DashboardState,
  { act, name }: Extract<PlainAct, { act: 'pause' | 'resume' }>,
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

function limiterOf(state: DashboardState, name: unknown): KnownLimiter {
  const known = state.known.find(limiter => limiter.name === name)
  if (known === undefined) throw new PolicyError(`limiter ${shown(name)}: nobody has reported a limiter of this name`)
  if (known.shared) return known
  throw new PolicyError(
    `limiter ${shown(name)}: it counts in the memory of its processes, so nothing of it can be changed from here`,
  )
}

/** What was asked for, with the key in place of the ref that stood for it. */
async function plainAct(state: DashboardState, given: unknown): Promise<PlainAct> {
  if (typeof given !== 'object' || given === null || typeof (given as Act).act !== 'string') {
    throw new PolicyError(`given ${shown(given)}, expected an act, like { act: 'pause', name: 'mail' }`)
  }
  const { ref, ...act } = given as { ref?: unknown; act: string }
  if (ref === undefined) return act as PlainAct
  const key = await state.keyOf(text(ref, 'ref'))
  if (key !== undefined) return { ...act, key } as PlainAct
  throw new PolicyError('this key is not among those that are shown any more: look it up by its name')
}

function text(given: unknown, what: string): string {
  if (typeof given === 'string' && given !== '') return given
  throw new PolicyError(`${what} ${shown(given)}: expected a text that is not empty`)
}
