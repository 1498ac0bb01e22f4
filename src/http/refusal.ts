import type { Decision } from '../limiter/core/decision.js'
import { PolicyError, shown } from '../limiter/core/errors.js'
import type { Fields } from './headers.js'

/** A body and its content type. */
export interface Body {
  readonly type: string
  readonly text: string
}

/** The response to a refused client. The content type belongs to the body and is not among the fields. */
export interface Refusal {
  readonly status: number
  readonly fields: Fields
  readonly body: Body
}

const TYPES = 'https://iana.org/assignments/http-problem-types#'

/**
 * The answer to a denied request: `status`, or 503 when the failure policy `closed` has decided, because then the
 * client did nothing wrong. `Retry-After` in whole seconds, rounded up, at least 1, and omitted if the request can
 * never fit.
 *
 * The body is problem details (RFC 9457, types of draft-ietf-httpapi-ratelimit-headers) for a client whose `Accept`
 * names JSON, and one line of text for any other. Neither contains the key. `names`: other names that
 * the fields of this response have for limits, by name.
 */
export function refuse(
  decision: Decision,
  status: number,
  accept: string | undefined,
  names?: ReadonlyMap<string, string>,
): Refusal {
  const fields: Fields = { 'Cache-Control': 'no-store' }
  const seconds = retryAfterOf(decision)
  if (seconds !== undefined) fields['Retry-After'] = `${seconds}`
  const code = decision.source === 'closed' ? 503 : status
  return { status: code, fields, body: ownBody(decision, code, seconds, accept, names) }
}

/** A refusal because too many requests are inside. */
interface Crowd {
  readonly name: string
  readonly status: number
  /** When a place is probably free. */
  readonly retryAfterMs: number
  /** The limit is for the whole service, so it is no client's fault. */
  readonly wholeService: boolean
}

/** The answer to a request without a place. `Retry-After` and the body as in `refuse`. */
export function refuseAtOnce(crowd: Crowd, accept: string | undefined): Refusal {
  const { name, status, retryAfterMs, wholeService } = crowd
  const seconds = Math.max(1, Math.ceil(retryAfterMs / 1000))
  const detail = `${wholeService ? 'No capacity at the moment' : 'Too many requests at once'}: ${adviceOf(seconds)}.`
  const [kind, title] = wholeService
    ? ['temporary-reduced-capacity', 'Request cannot be satisfied due to temporary server capacity constraints']
    : ['quota-exceeded', 'Request cannot be satisfied as assigned quota has been exceeded']
  const problem = { type: `${TYPES}${kind}`, title, 'violated-policies': [name], status, detail }
  const fields = { 'Cache-Control': 'no-store', 'Retry-After': `${seconds}` }
  return { status, fields, body: explain(accept, problem, detail) }
}

/** Problem details for a client that names JSON, else a line of text. */
function explain(accept: string | undefined, problem: object, detail: string): Body {
  return namesJson(accept)
    ? { type: 'application/problem+json', text: JSON.stringify(problem) }
    : { type: 'text/plain; charset=utf-8', text: `${detail}\n` }
}

/** The answer to an address on the deny list: 403 for any request. */
export function forbid(accept: string | undefined): Refusal {
  const detail = 'Requests from this address are not accepted.'
  const problem = { type: 'about:blank', title: 'Forbidden', status: 403, detail }
  return { status: 403, fields: { 'Cache-Control': 'no-store' }, body: explain(accept, problem, detail) }
}

/**
 * The service's own body: a text as it is, anything else as JSON. Throws `PolicyError` for a value that JSON cannot
 * represent.
 */
export function bodyOf(message: unknown): Body {
  if (typeof message === 'string') return { type: 'text/plain; charset=utf-8', text: message }
  const json = jsonOf(message)
  if (json !== undefined) return { type: 'application/json; charset=utf-8', text: json }
  throw new PolicyError(
    `message: given ${shown(message)}, which JSON cannot represent: expected text or an object, like { error: ` +
      '"slow down" }',
  )
}

/** True if an `Accept` field names JSON: application/json, application/problem+json or another +json, not with q=0. */
export function namesJson(accept: string | undefined): boolean {
  if (!accept) return false
  return accept.split(',').some(range => {
    const [name, ...parameters] = range.split(';')
    const type = name.trim().toLowerCase()
    return (type === 'application/json' || type.endsWith('+json')) && !parameters.some(isZeroQuality)
  })
}

function isZeroQuality(parameter: string): boolean {
  return /^\s*q\s*=\s*0(\.0*)?\s*$/i.test(parameter)
}

function retryAfterOf({ retryAfterMs }: Decision): number | undefined {
  return retryAfterMs === Number.POSITIVE_INFINITY ? undefined : Math.max(1, Math.ceil(retryAfterMs / 1000))
}

function ownBody(
  decision: Decision,
  status: number,
  seconds: number | undefined,
  accept: string | undefined,
  names: ReadonlyMap<string, string> | undefined,
): Body {
  const detail = `${status === 503 ? 'No capacity at the moment' : 'Too many requests'}: ${adviceOf(seconds)}.`
  return explain(accept, { ...problemOf(decision, names), status, detail, ...momentOf(decision) }, detail)
}

function adviceOf(seconds: number | undefined): string {
  if (seconds === undefined) return 'this one costs more than the limit ever allows'
  return `try again in ${seconds} ${seconds === 1 ? 'second' : 'seconds'}`
}

function problemOf(decision: Decision, names: ReadonlyMap<string, string> | undefined) {
  if (decision.source === 'closed') {
    return {
      type: `${TYPES}temporary-reduced-capacity`,
      title: 'Request cannot be satisfied due to temporary server capacity constraints',
      // The draft defines the member, but no limit decided, so none is known to be exceeded.
      'violated-policies': [],
    }
  }
  const [name, title] = decision.blocked
    ? ['abnormal-usage-detected', 'Request cannot be satisfied due to detection of abnormal request pattern']
    : ['quota-exceeded', 'Request cannot be satisfied as assigned quota has been exceeded']
  return {
    type: `${TYPES}${name}`,
    title,
    'violated-policies': decision.verdicts
      .filter(({ allowed }) => !allowed)
      .map(({ limit: { name } }) => names?.get(name) ?? name),
  }
}

/** The exact time, which `Retry-After` must round. JSON has no Infinity: omitted means never. */
function momentOf({ retryAfterMs }: Decision): { retryAfterMs?: number } {
  return retryAfterMs === Number.POSITIVE_INFINITY ? {} : { retryAfterMs }
}

function jsonOf(message: unknown): string | undefined {
  try {
    return JSON.stringify(message)
  } catch {
    return undefined
  }
}
