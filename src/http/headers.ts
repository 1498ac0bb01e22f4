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

/** Other names for limits, by name, where earlier limits of a response have taken theirs. */
type Names = ReadonlyMap<string, string> | undefined

/** What one limit tells the clients of its requests. */
export interface Report<Decided> {
  /** The names of its limits in lists; undefined: its lists, if it has any, name none. */
  readonly names: readonly string[] | undefined
  /** The fields of a decision, as if no other limit told the client anything. */
  of(decision: Decided, names: Names): Fields
}

/** Writes the fields of one form. */
interface Writer {
  /** `RateLimit-Policy`; undefined: the form has no such field. */
  policy?(names: Names): string
  /** Writes the other fields, for a decision that was counted. */
  write(fields: Fields, decision: Decision, names: Names): void
}

/** RFC 9651, section 3.3.1: an Integer has at most fifteen digits. */
const MOST = 999_999_999_999_999

/**
 * The header fields of decisions under a policy in the given forms. Text that is the same for every decision is built
 * once, here. `clock` is for the one form with a moment instead of a duration.
 */
export function headersFor(forms: readonly HeaderForm[], policy: Policy, clock: Clock): Report<Decision> {
  const chosen = forms.map(form => writers[form](policy, clock))
  return {
    names: forms.includes('draft-8') ? policy.map(({ name }) => name) : undefined,
    of(decision, names) {
      const fields: Fields = {}
      // If the failure policy allows or denies all, nothing is counted, and there are no numbers to report.
      const counted = decision.source !== 'open' && decision.source !== 'closed'
      for (const writer of chosen) {
        if (writer.policy !== undefined) fields['RateLimit-Policy'] = writer.policy(names)
        if (counted) writer.write(fields, decision, names)
      }
      return fields
    },
  }
}

/** True if two forms give one field different meanings, so that they cannot be sent together. */
export function clash(forms: readonly HeaderForm[]): boolean {
  return forms.includes('draft-8') && (forms.includes('draft-7') || forms.includes('draft-6'))
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
  const policyText = (names: Names) =>
    policy.map(limit => `${quoted(nameOf(limit, names))};q=${integer(limit.quota)}${windowOf(limit)}`).join(', ')
  const ownPolicy = policyText(undefined)
  /** `"100-per-1m";r=` of each limit by its name, which a share of it in an outage keeps. */
  const items = new Map(policy.map(({ name }) => [name, `${quoted(name)};r=`]))
  return {
    policy: names => (names === undefined ? ownPolicy : policyText(names)),
    write(fields, { verdicts }, names) {
      let text = ''
      for (let i = 0; i < verdicts.length; i++) {
        const verdict = verdicts[i]
        if (i > 0) text += ', '
        const item = names === undefined ? items.get(verdict.limit.name) : `${quoted(nameOf(verdict.limit, names))};r=`
        text += `${item}${remainingOf(verdict)};t=${secondsOf(verdict)}`
      }
      fields.RateLimit = text
    },
  }
}

function nameOf({ name }: Limit, names: Names): string {
  return names?.get(name) ?? name
}

function draft7(policy: Policy): Writer {
  const list = quotaList(policy)
  return {
    policy: () => list,
    write(fields, decision) {
      const limit = integer(decision.limit.quota)
      fields.RateLimit = `limit=${limit}, remaining=${remainingOf(decision)}, reset=${secondsOf(decision)}`
    },
  }
}

function draft6(policy: Policy): Writer {
  const list = quotaList(policy)
  return {
    policy: () => list,
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

function integer(units: number): number {
  return Math.min(units, MOST)
}
