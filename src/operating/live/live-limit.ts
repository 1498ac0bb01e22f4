import { formatDuration } from '../../limiter/core/duration.js'
import { PolicyError, shown } from '../../limiter/core/errors.js'
import {
  type CalendarLimitOptions,
  type LimitOptions,
  type Policy,
  type PolicyInput,
  parsePolicy,
} from '../../limiter/core/limit.js'
import { BoundedMap, getOrMake } from '../../limiter/core/maps.js'

/** A policy whose limits all have names: unnamed limits are named after the live name. */
export interface LivePolicy {
  /** As it was given. */
  readonly given: PolicyInput
  /** With all names, for the option `policy`: as text wherever possible. */
  readonly input: PolicyInput
  readonly policy: Policy
}

/** Names that can stand in the text of a policy. */
const NAME = /^[!-:<-~]{1,60}$/

/** Throws `PolicyError` for a live name that cannot name a limit. */
export function checkLiveName(name: unknown): asserts name is string {
  if (typeof name === 'string' && NAME.test(name)) return
  throw new PolicyError(
    `LivePolicies: name ${shown(name)}: expected 1 to 60 printable ASCII characters without space and ";", like "api"`,
  )
}

/**
 * Reads a policy and names its limits: the first without a name 'api', the next 'api-2'. So a limit keeps its counts
 * when its quota changes. Throws `PolicyError`.
 */
export function livePolicy(name: string, given: PolicyInput): LivePolicy {
  const entries = entriesOf(given)
  // Each separately: two unnamed limits may be equal before they are named.
  for (const entry of entries) parsePolicy(entry)
  const taken = new Set(entries.map(nameOf))
  let count = 0
  const nextName = (): string => {
    count++
    const next = count === 1 ? name : `${name}-${count}`
    return taken.has(next) ? nextName() : next
  }
  const named = entries.map((entry): string | LimitOptions => {
    if (nameOf(entry) !== undefined) return entry
    return typeof entry === 'string' ? `${entry} name=${nextName()}` : { ...entry, name: nextName() }
  })
  const texts = named.map(textOf)
  const input: PolicyInput = texts.every(text => text !== undefined) ? texts.join('; ') : Object.freeze(named)
  return { given, input, policy: parsePolicy(input) }
}

/** A policy as readable text: '100/1m token-bucket burst=20; 5/1s'. A text is returned unchanged. */
export function policyText(given: PolicyInput): string {
  if (typeof given === 'string') return given
  return entriesOf(given)
    .map(entry => textOf(entry) ?? limitText(entry as LimitOptions))
    .join('; ')
}

/** A policy as stored in Redis: a text as it is, anything else as JSON. */
export function storedPolicy(given: PolicyInput): string {
  return typeof given === 'string' ? given : JSON.stringify(given)
}

/** The inverse of `storedPolicy`. Throws for invalid JSON. */
export function givenPolicy(stored: string): PolicyInput {
  return /^\s*[[{]/.test(stored) ? (JSON.parse(stored) as PolicyInput) : stored
}

function entriesOf(given: PolicyInput): Array<string | LimitOptions> {
  const entries = (Array.isArray(given) ? given : [given]) as ReadonlyArray<string | LimitOptions>
  const parts = entries.flatMap(
    (entry): ReadonlyArray<string | LimitOptions> =>
      typeof entry === 'string' ? entry.split(';').map(part => part.trim()) : [entry],
  )
  if (parts.length === 0) parsePolicy(given)
  return parts
}

function nameOf(entry: string | LimitOptions): string | undefined {
  return typeof entry === 'string' ? /\sname=(\S+)/.exec(entry)?.[1] : entry.name
}

/** undefined for a limit whose name a text cannot hold. */
function textOf(entry: string | LimitOptions): string | undefined {
  if (typeof entry === 'string') return entry
  return entry.name === undefined || NAME.test(entry.name) ? limitText(entry) : undefined
}

function limitText({ quota, window, algorithm, burst, name, ...more }: LimitOptions): string {
  const { calendar, timezone }: Partial<CalendarLimitOptions> = more
  const words = [`${quota}/${calendar ?? (typeof window === 'number' ? formatDuration(window) : window)}`]
  if (calendar !== undefined) words.push('calendar')
  if (algorithm !== undefined) words.push(algorithm)
  if (burst !== undefined) words.push(`burst=${burst}`)
  if (timezone !== undefined) words.push(`tz=${timezone}`)
  if (name !== undefined) words.push(`name=${NAME.test(name) ? name : JSON.stringify(name)}`)
  return words.join(' ')
}

/** One change of a live limit, as recorded in the history. */
export interface LiveChange {
  /** The live name. */
  readonly name: string
  /** The key whose own limit was changed; undefined: the limit of the name. */
  readonly key?: string
  /** The new policy, as text like '100/1m'; null: cleared. */
  readonly policy: string | null
  /** When, by the clock of the Redis server. */
  readonly at: Date
  /** The user who changed it, if given. */
  readonly by?: string
  /** When it ends by itself; undefined: it stays. */
  readonly until?: Date
}

/** A change as stored in Redis, with its number. */
export interface Change {
  readonly epoch: string
  readonly seq: number
  readonly atMs: number
  /** undefined: it stays. */
  readonly untilMs: number | undefined
  readonly name: string
  readonly key: string | undefined
  /** undefined: cleared. */
  readonly given: PolicyInput | undefined
  /** The same as text; null: cleared. */
  readonly policy: string | null
  readonly by: string | undefined
  /** The process that made it. */
  readonly from: string
}

/** What the sender of a change writes; the script adds the rest. */
export interface ChangeText {
  readonly name: string
  readonly key?: string
  /** See `storedPolicy`; absent: cleared. */
  readonly policy?: string
  readonly by?: string
  readonly from: string
}

const LINE = /^(\S+) (\d+) (\d+) (-?\d+) (\{.*\})$/s

/**
 * Reads `<epoch> <seq> <at, ms> <until, ms, or -1> <ChangeText as JSON>`. Any client may write to Redis: undefined for
 * anything else.
 */
export function readChange(line: unknown): Change | undefined {
  const match = typeof line === 'string' ? LINE.exec(line) : null
  if (match === null) return undefined
  const [, epoch, seq, at, until, json] = match
  try {
    const { name, key, policy, by, from } = JSON.parse(json) as Partial<ChangeText>
    const texts = [name, from].every(isText) && [key, policy, by].every(value => value === undefined || isText(value))
    if (!texts) return undefined
    const given = policy === undefined ? undefined : givenPolicy(policy)
    return {
      epoch,
      seq: Number(seq),
      atMs: Number(at),
      untilMs: until === '-1' ? undefined : Number(until),
      name: name as string,
      key,
      given,
      policy: given === undefined ? null : policyText(given),
      by,
      from: from as string,
    }
  } catch {
    return undefined
  }
}

/** Names a change. */
export function changeId({ epoch, seq }: Change): string {
  return `${epoch} ${seq}`
}

export function liveChange({ name, key, policy, atMs, by, untilMs }: Change): LiveChange {
  return {
    name,
    ...(key !== undefined && { key }),
    policy,
    at: new Date(atMs),
    ...(by !== undefined && { by }),
    ...(untilMs !== undefined && { until: new Date(untilMs) }),
  }
}

function isText(value: unknown): boolean {
  return typeof value === 'string'
}

/** What is set, as `LiveRecords.change` would set it again. */
export interface LimitState {
  /** The permanent limit. */
  readonly standing?: PolicyInput
  readonly temporary?: { readonly policy: PolicyInput; readonly untilMs: number }
}

/** A limit, and the end of its validity; undefined: until it is changed. */
interface SetLimit {
  readonly live: LivePolicy
  readonly untilMs: number | undefined
}

/**
 * The limits set for a name or for one key: a permanent one, and a temporary one that holds until its end. Setting a
 * limit without an end removes both; setting one with an end replaces the earlier temporary one, and keeps the
 * permanent one for afterwards.
 */
export class LiveLimit {
  #standing: SetLimit | undefined
  #temporary: SetLimit | undefined
  /** The newest change that it holds. */
  #seq: number

  /** The state after the change `seq`; a record that this version does not understand is ignored. */
  constructor(seq: number, standing?: Change, temporary?: Change) {
    this.#seq = seq
    this.#standing = setLimitOf(standing)
    this.#temporary = setLimitOf(temporary)
  }

  get seq(): number {
    return this.#seq
  }

  /** False if nothing is set, now or later. */
  get isSet(): boolean {
    return this.#standing !== undefined || this.#temporary !== undefined
  }

  /**
   * The limit in force at a moment of the server's clock, which is only read if a limit ends; undefined: none is set.
   */
  at(serverNowMs: () => number): LivePolicy | undefined {
    const temporary = this.#temporary
    if (temporary !== undefined) {
      if (serverNowMs() < (temporary.untilMs as number)) return temporary.live
      this.#temporary = undefined
    }
    return this.#standing?.live
  }

  /** What is set at a moment of the server's clock. */
  stateAt(serverNowMs: number): LimitState {
    const [standing, temporary] = [this.#standing, this.#temporary]
    const untilMs = temporary?.untilMs ?? 0
    return {
      ...(standing !== undefined && { standing: standing.live.given }),
      ...(temporary !== undefined && untilMs > serverNowMs && { temporary: { policy: temporary.live.given, untilMs } }),
    }
  }

  /**
   * Applies a later change; ignores an earlier one. A policy that this version does not understand is as none: a
   * process that starts now cannot know what held before.
   */
  apply(change: Change): void {
    if (change.seq <= this.#seq) return
    this.#seq = change.seq
    if (change.given === undefined) {
      this.#standing = undefined
      this.#temporary = undefined
      return
    }
    const limit = setLimitOf(change)
    this.#temporary = change.untilMs === undefined ? undefined : limit
    if (change.untilMs === undefined) this.#standing = limit
  }
}

function setLimitOf(change: Change | undefined): SetLimit | undefined {
  const live = change?.given === undefined ? null : livePolicyOf(change.name, change.given)
  return live === null ? undefined : { live, untilMs: change?.untilMs }
}

/** Many keys have the same few limits. */
const KNOWN = new BoundedMap<string, LivePolicy | null>(1000)

/**
 * A policy was checked when it was set, but perhaps by a newer version: null if this version does not understand it.
 */
function livePolicyOf(name: string, given: PolicyInput): LivePolicy | null {
  return getOrMake(KNOWN, JSON.stringify([name, given]), () => {
    try {
      return livePolicy(name, given)
    } catch {
      return null
    }
  })
}
