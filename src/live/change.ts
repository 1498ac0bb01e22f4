import type { PolicyInput } from '../core/limit.js'
import { givenPolicy, policyText } from './live-policy.js'

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

/** Reads `<epoch> <seq> <at, ms> <until, ms, or -1> <ChangeText as JSON>`. Any client may write to Redis: undefined for anything else. */
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
