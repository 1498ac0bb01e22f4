import { formatDuration, parseOption } from '../../core/duration.js'
import { PolicyError, shown } from '../../core/errors.js'
import { parsePolicy } from '../../core/limit.js'
import { clock, plural, promiseWords, span, windowWords } from '../look/words.js'
import type { Act, Done } from '../view.js'
import type { NotedChange, PlainAct } from './changes.js'
import type { KnownLimiter } from './limiters.js'
import { wordsOf } from './live-limits.js'
import { hidden } from './page-views.js'
import type { Room } from './room.js'

/** The result of a change, and its entry in the history. */
interface Outcome {
  readonly text: string
  readonly change: Omit<NotedChange, 'user' | 'act'>
}

const DAY_MS = 86_400_000
const LONGEST_BLOCK_MS = 365 * DAY_MS

/** Carries out a change and records it in the history. Throws `PolicyError` for an invalid change, `StoreError` when Redis fails. */
export async function carryOut(room: Room, given: unknown, user: string | undefined): Promise<Done> {
  const act = await plainAct(room, given)
  await room.refresh()
  room.checkRedis()
  const { text, change } = await outcomeOf(room, act, user)
  await room.changes.note({ ...change, act, ...(user !== undefined && { user }) })
  return { text, ...(change.undo !== undefined && { undo: hidden(room, change.undo) }) }
}

async function outcomeOf(room: Room, act: PlainAct, user: string | undefined): Promise<Outcome> {
  switch (act.act) {
    case 'reset':
    case 'block':
    case 'unblock':
      return ofKey(room, act)
    case 'set-limit':
    case 'clear-limit':
      return ofLimit(room, act, user)
    case 'set-rate':
      return ofRate(room, act)
    case 'force-release': {
      const ended = await room.objects.semaphore(act.name).forceRelease(text(act.lease, 'lease'))
      if (!ended) throw new PolicyError(`the lease ${shown(act.lease)} of ${act.name} has ended already`)
      return {
        text: `A lease of ${act.name} was ended.`,
        change: { what: 'Lease ended by force', subject: act.name, before: act.lease },
      }
    }
    case 'pause':
    case 'resume':
      return ofQueue(room, act)
    case 'redrive': {
      const ids = act.id === undefined ? undefined : [text(act.id, 'id')]
      const back = await room.objects.queue(act.name).redrive(ids === undefined ? {} : { ids })
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

async function ofKey(room: Room, act: Extract<PlainAct, { act: 'reset' | 'block' | 'unblock' }>): Promise<Outcome> {
  const limiter = limiterOf(room, act.limiter)
  const key = text(act.key, 'key')
  const subject = limiter.name
  const name = room.show(key).text
  if (act.act === 'reset') {
    await room.limiters.reset(limiter, key)
    return { text: `${subject} has forgotten what ${name} spent.`, change: { what: 'Key reset', subject, key } }
  }
  if (act.act === 'unblock') {
    const known = await room.limiters.look(limiter, key, room.picture.now)
    await room.limiters.unblock(limiter, key)
    const leftMs = (known?.blockedUntil ?? 0) - room.picture.now
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
  await room.limiters.block(limiter, key, forMs)
  const until = room.picture.now + forMs
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
  room: Room,
  act: Extract<PlainAct, { act: 'set-limit' | 'clear-limit' }>,
  user: string | undefined,
): Promise<Outcome> {
  const { live } = room
  const limiter = text(act.limiter, 'limiter')
  const key = act.key === undefined ? undefined : text(act.key, 'key')
  await live.refresh(true)
  const previous = await live.text(limiter, key)
  const inForce = key === undefined ? undefined : (await live.ownView(limiter, key))?.words
  const before = inForce ?? wordsOf(live.policy(limiter) ?? [])
  const who = key === undefined ? limiter : `${limiter} for ${room.show(key).text}`
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
  const until = forMs === undefined ? undefined : room.picture.now + forMs
  return {
    text: `${who} now allows ${after}${forMs === undefined ? '' : `, for ${span(forMs)}`}.`,
    change: { what: 'Live limit set', after, ...(until !== undefined && { until }), ...noted },
  }
}

async function ofRate(room: Room, act: Extract<PlainAct, { act: 'set-rate' }>): Promise<Outcome> {
  const { name, rate, interval } = act
  const shared = room.objects.rate(text(name, 'name'))
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

async function ofQueue(room: Room, { act, name }: Extract<PlainAct, { act: 'pause' | 'resume' }>): Promise<Outcome> {
  const queue = room.objects.queue(text(name, 'name'))
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

function limiterOf(room: Room, name: unknown): KnownLimiter {
  const known = room.known.find(limiter => limiter.name === name)
  if (known === undefined) throw new PolicyError(`limiter ${shown(name)}: nobody has reported a limiter of this name`)
  if (known.shared) return known
  throw new PolicyError(
    `limiter ${shown(name)}: it counts in the memory of its processes, so nothing of it can be changed from here`,
  )
}

/** What was asked for, with the key in place of the ref that stood for it. */
async function plainAct(room: Room, given: unknown): Promise<PlainAct> {
  if (typeof given !== 'object' || given === null || typeof (given as Act).act !== 'string') {
    throw new PolicyError(`given ${shown(given)}, expected an act, like { act: 'pause', name: 'mail' }`)
  }
  const { ref, ...act } = given as { ref?: unknown; act: string }
  if (ref === undefined) return act as PlainAct
  const key = await room.keyOf(text(ref, 'ref'))
  if (key !== undefined) return { ...act, key } as PlainAct
  throw new PolicyError('this key is not among those that are shown any more: look it up by its name')
}

function text(given: unknown, what: string): string {
  if (typeof given === 'string' && given !== '') return given
  throw new PolicyError(`${what} ${shown(given)}: expected a text that is not empty`)
}
