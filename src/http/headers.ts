import type { Clock } from '../limiter/core/clock.js'
import type { Decision, Verdict } from '../limiter/core/decision.js'
import type { Limit, Policy } from '../limiter/core/limit.js'

/**
 * The header fields that report limits to the client.
 *
 * - `draft-8`: `RateLimit-Policy` and `RateLimit` as lists of named limits, as draft-ietf-httpapi-ratelimit-headers
 *   defines them from 08 to 11. The only form that reports every limit.
 * - `draft-7`: `RateLimit: limit=100, remaining=50, reset=30` and `RateLimit-Policy: 100;w=60`.
 * - `draft-6`: `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset` (seconds) and `RateLimit-Policy`.
 * - `legacy`: `X-RateLimit-Limit`, `X-RateLimit-Remaining`, `X-RateLimit-Reset` (seconds since the epoch).
 *
 * All but the first report the strictest limit only, as the drafts require. No form reports more remaining units than
 * the quota.
 */
export type HeaderForm = 'draft-8' | 'draft-7' | 'draft-6' | 'legacy'

export const HEADER_FORMS: readonly HeaderForm[] = ['draft-8', 'draft-7', 'draft-6', 'legacy']

/** Names and values of header fields. */
export type Fields = Record<string, string>

/** Writes the fields of one form. */
interface Writer {
  /** `RateLimit-Policy`; undefined: the form has no such field. */
  readonly policy?: string
  /** Writes the other fields, for a decision that was counted. */
  write(fields: Fields, decision: Decision): void
}

/** RFC 9651, section 3.3.1: an Integer has at most fifteen digits. */
const MOST = 999_999_999_999_999

/**
 * Returns the header fields of a decision in the given forms. Text that is the same for every decision is
 * built once, here. `clock` is for the one form with a moment instead of a duration.
 */
export function headersFor(forms: readonly HeaderForm[], policy: Policy, clock: Clock): (decision: Decision) => Fields {
  const chosen = forms.map(form => writers[form](policy, clock))
  return decision => {
    const fields: Fields = {}
    // If the failure policy allows or denies all, nothing is counted, and there are no numbers to report.
    const counted = decision.source !== 'open' && decision.source !== 'closed'
    for (const writer of chosen) {
      if (writer.policy !== undefined) fields['RateLimit-Policy'] = writer.policy
      if (counted) writer.write(fields, decision)
    }
    return fields
  }
}

/** True if two forms give one field different meanings, so that they cannot be sent together. */
export function clash(forms: readonly HeaderForm[]): boolean {
  return forms.includes('draft-8') && (forms.includes('draft-7') || forms.includes('draft-6'))
}

/**
 * The fields to set after another limiter has set its own on the same response: lists are extended, by other names
 * where two limits have one name; where only one limit fits, and where the lists are of different drafts, the stricter
 * of the two decisions stays.
 */
export function mergeHeaders(fields: Fields, set: (name: string) => string | undefined, stricter: boolean): Fields {
  const merged: Fields = {}
  const policy = set('RateLimit-Policy')
  const names = otherNames(fields, policy)
  for (const name of Object.keys(fields)) {
    const before = name === 'RateLimit-Policy' ? policy : set(name)
    const now = fields[name]
    if (before === undefined) merged[name] = renamed(now, names)
    else if ((name === 'RateLimit-Policy' || isNamed(now)) && isNamed(before) === isNamed(now)) {
      merged[name] = `${before}, ${renamed(now, names)}`
    } else if (stricter) merged[name] = now
  }
  return merged
}

/**
 * By the name of a limit: its name in the fields of one response, where `policy`, set by another limiter, has a limit
 * of that name. undefined: all keep their names.
 */
export function otherNames(fields: Fields, policy: string | undefined): ReadonlyMap<string, string> | undefined {
  const own = fields['RateLimit-Policy']
  if (policy === undefined || own === undefined || !isNamed(policy) || !isNamed(own)) return undefined
  const taken = new Set(namesIn(policy))
  const names = namesIn(own)
  const clashes = names.filter(name => taken.has(name))
  if (clashes.length === 0) return undefined
  for (const name of names) taken.add(name)
  return new Map(
    clashes.map(name => {
      let number = 2
      while (taken.has(`${name}-${number}`)) number++
      taken.add(`${name}-${number}`)
      return [name, `${name}-${number}`]
    }),
  )
}

/** The name of each item of a list. In a name, a quotation mark is escaped. */
const ITEM_NAME = /(^|, )"((?:[^"\\]|\\.)*)"/g

function namesIn(list: string): string[] {
  return Array.from(list.matchAll(ITEM_NAME), ([, , name]) => name.replace(/\\(.)/g, '$1'))
}

function renamed(list: string, names: ReadonlyMap<string, string> | undefined): string {
  if (names === undefined || !isNamed(list)) return list
  return list.replace(ITEM_NAME, (item, comma: string, text: string) => {
    const name = names.get(text.replace(/\\(.)/g, '$1'))
    return name === undefined ? item : `${comma}${quoted(name)}`
  })
}

/** An item of `RateLimit-Policy`, in the form of drafts 8 to 11, for a concurrency limit, which has no window. */
export function concurrencyPolicy(name: string, permits: number): string {
  return `${quoted(name)};q=${integer(permits)};qu="concurrent-requests"`
}

const writers: Record<HeaderForm, (policy: Policy, clock: Clock) => Writer> = {
  'draft-8': draft8,
  'draft-7': draft7,
  'draft-6': draft6,
  legacy,
}

function draft8(policy: Policy): Writer {
  /** `"100-per-1m";r=` of each limit by its name, which a share of it in an outage keeps. */
  const items = new Map(policy.map(({ name }) => [name, `${quoted(name)};r=`]))
  return {
    policy: policy.map(limit => `${quoted(limit.name)};q=${integer(limit.quota)}${windowOf(limit)}`).join(', '),
    write(fields, { verdicts }) {
      let text = ''
      for (let i = 0; i < verdicts.length; i++) {
        const verdict = verdicts[i]
        if (i > 0) text += ', '
        text += `${items.get(verdict.limit.name)}${remainingOf(verdict)};t=${secondsOf(verdict)}`
      }
      fields.RateLimit = text
    },
  }
}

function draft7(policy: Policy): Writer {
  return {
    policy: quotaList(policy),
    write(fields, decision) {
      const limit = integer(decision.limit.quota)
      fields.RateLimit = `limit=${limit}, remaining=${remainingOf(decision)}, reset=${secondsOf(decision)}`
    },
  }
}

function draft6(policy: Policy): Writer {
  return {
    policy: quotaList(policy),
    write(fields, decision) {
      fields['RateLimit-Limit'] = `${integer(decision.limit.quota)}`
      fields['RateLimit-Remaining'] = `${remainingOf(decision)}`
      fields['RateLimit-Reset'] = `${secondsOf(decision)}`
    },
  }
}

function legacy(_policy: Policy, clock: Clock): Writer {
  return {
    write(fields, decision) {
      fields['X-RateLimit-Limit'] = `${decision.limit.quota}`
      fields['X-RateLimit-Remaining'] = `${Math.min(decision.remaining, decision.limit.quota)}`
      fields['X-RateLimit-Reset'] = `${Math.ceil((clock.now() + waitOf(decision)) / 1000)}`
    },
  }
}

/**
 * The time that a client needs, in ms. Allowed: until everything is restored. Denied: until the request fits: the same
 * moment as `Retry-After`, as drafts 7 to 9 recommend, and not later, as 10 and 11 require.
 */
function waitOf({ allowed, retryAfterMs, resetAfterMs, limit }: Verdict): number {
  if (allowed) return resetAfterMs
  if (retryAfterMs !== Number.POSITIVE_INFINITY) return retryAfterMs
  // A quota of 0 is never used, hence never restored: 0 seconds would tell a waiting client to return at once.
  return resetAfterMs || limit.windowMs
}

/**
 * The remaining units, at most the quota: a bucket may hold a burst above it, and clients treat more remaining than the
 * quota as an error.
 */
function remainingOf({ remaining, limit }: Verdict): number {
  return Math.min(remaining, limit.quota, MOST)
}

function secondsOf(verdict: Verdict): number {
  return Math.ceil(waitOf(verdict) / 1000)
}

/** The drafts only have whole seconds > 0, and no windows of varying length, like calendar windows. */
function windowOf({ windowMs, calendar }: Limit): string {
  return calendar === undefined ? `;w=${Math.ceil(windowMs / 1000)}` : ''
}

/** `100;w=60, 1000;w=3600`. Drafts 6 and 7 forbid repeated quotas; of such limits the first is listed. */
function quotaList(policy: Policy): string {
  const firsts = policy.filter((limit, i) => policy.findIndex(({ quota }) => quota === limit.quota) === i)
  return firsts.map(limit => `${integer(limit.quota)}${windowOf(limit)}`).join(', ')
}

/** A String of RFC 9651, section 3.3.3. Names are printable ASCII, so only two characters need an escape. */
function quoted(name: string): string {
  return `"${name.replace(/[\\"]/g, '\\$&')}"`
}

function isNamed(list: string): boolean {
  return list.startsWith('"')
}

function integer(units: number): number {
  return Math.min(units, MOST)
}
