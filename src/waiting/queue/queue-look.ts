import { PolicyError, shown } from '../../limiter/core/errors.js'
import { type InspectOptions, type Listed, listLimit } from '../../limiter/core/listed.js'
import { checkOptions, checkText, type OptionNames } from '../../limiter/core/options.js'

/** The number of messages in a queue, by their state. */
export interface QueueStats {
  /** Due and not yet delivered. */
  readonly ready: number
  /** Not due yet. */
  readonly delayed: number
  /** Delivered, not settled, and still within their visibility. */
  readonly unacked: number
  /** Dead letters. */
  readonly dead: number
  /** When the next delayed message is due: ms since the epoch, by the server's clock; null if there is none. */
  readonly nextDueAt: number | null
}

/** The state of a message in a queue. */
export type MessageState = 'ready' | 'delayed' | 'unacked' | 'dead'

/** A message as `inspect` lists it. */
export interface MessageView {
  /** The id given to `push`, or a random one. */
  readonly id: string
  /** What it waits for. */
  readonly state: MessageState
  /**
   * When it is or was due, ms since the epoch by the server's clock; of an unacked one when its visibility ends, of a
   * dead one when it died.
   */
  readonly dueAt: number
  /** How many attempts count so far; 0 before the first. */
  readonly attempt: number
  /** As the codec encoded it: at most 1 kB. */
  readonly payload: string
  /** Why it failed, if it is dead. */
  readonly reason?: string
}

/** What a queue holds. */
export interface QueueView {
  /** Due and not yet delivered, or not settled within its visibility. */
  readonly ready: number
  /** Not due yet. */
  readonly delayed: number
  /** Delivered, not settled, and still within their visibility. */
  readonly unacked: number
  /** Dead letters that are still kept. */
  readonly dead: number
  /** For how long the oldest ready message has been due, ms; 0 if none is. */
  readonly overdueMs: number
  /** When the next delayed message is due: ms since the epoch, by the server's clock; null if there is none. */
  readonly nextDueAt: number | null
  /** Nothing is delivered until `resume`. */
  readonly paused: boolean
  /**
   * Those that are due next first, in the order ready, delayed, unacked, dead. Fewer than asked for if they are large.
   */
  readonly messages: Listed<MessageView>
}

/** Options of `DelayQueue.inspect`. */
export interface QueueInspectOptions extends InspectOptions {
  /** Only messages in this state, like 'dead'. Default: all. */
  state?: MessageState
  /** Only the message with this id. Default: all. */
  id?: string
}

/** Which messages to list; '' for all states and ids. */
export interface WantedMessages {
  readonly limit: number
  readonly state: MessageState | ''
  readonly id: string
}

export const NO_MESSAGES: WantedMessages = { limit: 0, state: '', id: '' }

const INSPECT_OPTIONS: OptionNames<QueueInspectOptions> = { limit: true, state: true, id: true }
const STATES: readonly MessageState[] = ['ready', 'delayed', 'unacked', 'dead']

/** Checks the options: `PolicyError`, which begins with `user`. */
export function parseQueueInspectOptions(options: QueueInspectOptions, user: string): WantedMessages {
  checkOptions(user, options, INSPECT_OPTIONS, "{ limit: 50, state: 'dead' }")
  const { state, id } = options
  const limit = listLimit(options.limit, user)
  if (state !== undefined && !STATES.includes(state)) {
    throw new PolicyError(`${user}: state ${shown(state)}: expected one of ${STATES.join(', ')}, like "dead"`)
  }
  if (id !== undefined) checkText(id, `${user}: id`, 'order-17')
  return { limit, state: state ?? '', id: id ?? '' }
}

/** The answer of lua/waiting/queue/queue_look.lua. */
export interface QueueLook extends QueueView {
  /** In how many ms the next delayed message is due; Infinity if there is none. */
  readonly nextDueMs: number
}

export function parseQueueLook(reply: unknown): QueueLook {
  const [ready, delayed, unacked, dead, nextDueAt, overdueMs, nextDueMs, paused, more, rows] = reply as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
    number,
    number,
    Array<[string, MessageState, number, number, string, string]>,
  ]
  return {
    ready,
    delayed,
    unacked,
    dead,
    nextDueAt: nextDueAt < 0 ? null : nextDueAt,
    overdueMs,
    nextDueMs: nextDueMs < 0 ? Number.POSITIVE_INFINITY : nextDueMs,
    paused: paused === 1,
    messages: { items: rows.map(messageOf), more },
  }
}

function messageOf([id, state, dueAt, attempt, payload, reason]: [
  string,
  MessageState,
  number,
  number,
  string,
  string,
]): MessageView {
  const view = { id, state, dueAt, attempt, payload }
  return state === 'dead' ? { ...view, reason } : view
}
