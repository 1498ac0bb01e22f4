import { formatDuration } from '../core/duration.js'
import { PolicyError, shown } from '../core/errors.js'
import {
  type CalendarLimitOptions,
  type LimitOptions,
  type Policy,
  type PolicyInput,
  parsePolicy,
} from '../core/limit.js'

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
 * Reads a policy and names its limits: the first without a name 'api', the next 'api-2'. So a limit keeps its counts when its quota changes.
 * Throws `PolicyError`.
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
    .map(entry => textOf(entry) ?? wordsOf(entry as LimitOptions))
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
  return entry.name === undefined || NAME.test(entry.name) ? wordsOf(entry) : undefined
}

function wordsOf({ quota, window, algorithm, burst, name, ...more }: LimitOptions): string {
  const { calendar, timezone }: Partial<CalendarLimitOptions> = more
  const words = [`${quota}/${calendar ?? (typeof window === 'number' ? formatDuration(window) : window)}`]
  if (calendar !== undefined) words.push('calendar')
  if (algorithm !== undefined) words.push(algorithm)
  if (burst !== undefined) words.push(`burst=${burst}`)
  if (timezone !== undefined) words.push(`tz=${timezone}`)
  if (name !== undefined) words.push(`name=${NAME.test(name) ? name : JSON.stringify(name)}`)
  return words.join(' ')
}
