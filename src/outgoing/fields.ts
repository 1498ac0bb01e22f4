const DECIMAL = /^\d{1,15}(?:\.\d{1,15})?$/
const ISO = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})$/
// The three forms of RFC 9110, section 5.6.7: "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun
// Nov 6 08:49:37 1994".
const HTTP_DATE = [
  /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{5,8}, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/,
]
const GO_DURATION = /^(?:\d{1,9}(?:\.\d{1,9})?(?:h|ms|m|s|us|µs|ns))+$/
const GO_UNITS_MS: Readonly<Record<string, number>> = {
  h: 3_600_000,
  m: 60_000,
  s: 1000,
  ms: 1,
  us: 0.001,
  µs: 0.001,
  ns: 0.000001,
}

/** A number ≥ 0, as digits with or without a fraction; undefined for anything else. */
function decimalOf(text: string | undefined): number | undefined {
  const trimmed = text?.trim()
  return trimmed !== undefined && DECIMAL.test(trimmed) ? Number(trimmed) : undefined
}

/** Seconds ≥ 0 as whole milliseconds, rounded up; undefined for anything else, also for more than 2^53 ms. */
function secondsOf(text: string | undefined): number | undefined {
  const seconds = decimalOf(text)
  if (seconds === undefined) return undefined
  // 0.1 s must not become 101 ms because 0.1 * 1000 is a little more than 100 in other cases.
  const ms = Math.ceil(Number((seconds * 1000).toFixed(3)))
  return Number.isSafeInteger(ms) ? ms : undefined
}

/**
 * A duration as Go writes it, like "6m0s", "1h2m3.5s" or "20ms", as whole ms, rounded up; undefined for anything else.
 */
function goDurationOf(text: string): number | undefined {
  if (!GO_DURATION.test(text)) return undefined
  let ms = 0
  for (const [, number, unit] of text.matchAll(/([\d.]+)(h|ms|m|s|us|µs|ns)/g)) ms += Number(number) * GO_UNITS_MS[unit]
  return Math.ceil(Number(ms.toFixed(3)))
}

/** A date of HTTP as ms since the epoch; undefined for anything else. */
function httpDateOf(text: string): number | undefined {
  const form = HTTP_DATE.findIndex(pattern => pattern.test(text))
  // The last form does not say that it is GMT.
  return form < 0 ? undefined : numberOf(Date.parse(form === 2 ? `${text} GMT` : text))
}

/** A date of HTTP or of ISO 8601 as ms since the epoch; undefined for anything else. */
function dateOf(text: string): number | undefined {
  return ISO.test(text) ? numberOf(Date.parse(text)) : httpDateOf(text)
}

function numberOf(ms: number): number | undefined {
  return Number.isNaN(ms) ? undefined : ms
}

/** Header fields of a response: `Headers`, or names with values, whose case does not matter. */
export type HeaderFields = Headers | Record<string, string | string[] | undefined>

/**
 * Reads fields by their lower-case names; several fields of one name are joined by commas. undefined: there is none.
 * Never throws.
 */
function fieldReader(headers: HeaderFields): (name: string) => string | undefined {
  if (typeof headers !== 'object' || headers === null) return () => undefined
  const { get } = headers
  if (typeof get === 'function') return name => textOf((headers as Headers).get(name))
  const fields = new Map<string, string>()
  for (const [name, value] of Object.entries(headers)) {
    const text = textOf(Array.isArray(value) ? value.join(', ') : value)
    if (text !== undefined) fields.set(name.toLowerCase(), text)
  }
  return name => fields.get(name)
}

/** Values are not type-checked: a number counts as its text, anything else as absent. */
function textOf(value: unknown): string | undefined {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined
}

/**
 * The wait that a response asks for, in ms: its field `retry-after-ms` (OpenAI and others; a fraction is rounded up),
 * else its field `Retry-After` (RFC 9110, section 10.2.3): a number of seconds, or a date relative to `now` (ms since
 * the epoch; default: this moment). 0 for a past date. More than `Number.MAX_SAFE_INTEGER` ms counts as so many.
 * undefined if there is neither field, or their values are invalid. Never throws.
 */
export function parseRetryAfter(headers: HeaderFields, now = Date.now()): number | undefined {
  const read = fieldReader(headers)
  const ms = decimalOf(read('retry-after-ms'))
  if (ms !== undefined) return Math.ceil(ms)
  const text = read('retry-after')?.trim()
  if (text === undefined) return undefined
  const wait = secondsOf(text)
  if (wait !== undefined) return wait
  if (/^\d+$/.test(text)) return Number.MAX_SAFE_INTEGER
  const at = httpDateOf(text)
  return at === undefined ? undefined : Math.max(0, at - now)
}

/**
 * An item of a list of structured fields (RFC 9651): its value, and its parameters as text. `strings`: the parameters
 * that are strings, in quotes.
 */
interface ListItem {
  readonly value: string
  readonly parameters: ReadonlyMap<string, string>
  readonly strings: ReadonlySet<string>
}

const SPACE = /[ \t]*/y
const VALUE = /"((?:[^"\\]|\\["\\])*)"|([^\s",;]+)/y
const PARAMETER = /[ \t]*;[ \t]*([A-Za-z*][\w.*-]*)(?:=(?:"((?:[^"\\]|\\["\\])*)"|([^\s",;]*)))?/y

/**
 * The items of a list like `"day";q=100;w=86400, "second";q=5;w=1`. Strings lose their quotes. What is malformed is
 * left out, up to the next comma. Takes time in proportion to the length of the text.
 */
function structuredList(text: string): ListItem[] {
  const items: ListItem[] = []
  let at = 0
  const take = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = at
    const match = pattern.exec(text)
    if (match !== null) at = pattern.lastIndex
    return match
  }
  while (at < text.length) {
    take(SPACE)
    const value = take(VALUE)
    if (value !== null) {
      const parameters = new Map<string, string>()
      const strings = new Set<string>()
      for (let match = take(PARAMETER); match !== null; match = take(PARAMETER)) {
        const name = match[1].toLowerCase()
        parameters.set(name, unquoted(match[2]) ?? match[3] ?? '')
        if (match[2] === undefined) strings.delete(name)
        else strings.add(name)
      }
      take(SPACE)
      if (at === text.length || text[at] === ',') {
        items.push({ value: unquoted(value[1]) ?? value[2], parameters, strings })
      }
    }
    const comma = text.indexOf(',', at)
    at = comma < 0 ? text.length : comma + 1
  }
  return items
}

function unquoted(text: string | undefined): string | undefined {
  return text?.replace(/\\(["\\])/g, '$1')
}

/** The report of a response on one limit. A field that the response does not have, or that is invalid, is undefined. */
export interface QuotaInfo {
  /**
   * The name that the server gives to the limit (draft 8 and later), or what it counts: 'requests', 'tokens',
   * 'input-tokens', 'output-tokens' (OpenAI, Anthropic and others).
   */
  readonly policy?: string
  /** Units per window. */
  readonly limit?: number
  /** Units that are left now. */
  readonly remaining?: number
  /** In how many ms units come back; 0 for a moment that has passed. */
  readonly resetAfterMs?: number
  /** The length of the window, ms. */
  readonly windowMs?: number
  /**
   * The form of the fields: a draft of the IETF ('draft-8' also for later ones), or 'legacy' for X-RateLimit-* and
   * other fields without a standard.
   */
  readonly form: 'draft-8' | 'draft-7' | 'draft-6' | 'legacy'
}

type Read = (name: string) => string | undefined

/**
 * Reads the limits in a response: `RateLimit` and `RateLimit-Policy` of drafts 7 to 11 and of the one after (`a`, `w`
 * instead of `r`, `t`), `RateLimit-Limit`, `-Remaining` and `-Reset` of draft 6, also as Docker Hub and GitLab send
 * them, `X-RateLimit-*` and `X-Rate-Limit-*` as GitHub, Discord, Reddit, Atlassian and Envoy send them,
 * `X-RateLimit-Limit-Requests`, `-Tokens` and so on (OpenAI and others), `Anthropic-RateLimit-*`, and
 * `X-Shopify-Shop-Api-Call-Limit`. A response that uses several forms returns the newest first. Malformed parts are
 * omitted. `now`: ms since the epoch; default: this moment. Never throws.
 */
export function parseRateLimit(headers: HeaderFields, now = Date.now()): QuotaInfo[] {
  const read = fieldReader(headers)
  return [...structuredQuotas(read, now), ...draft6Quotas(read, now), ...legacyQuotas(read, now)]
}

/** Drafts 7 and later: both use the field `RateLimit`; only draft 7 has items like limit=100. */
function structuredQuotas(read: Read, now: number): QuotaInfo[] {
  const text = read('ratelimit')
  const policies = structuredList(read('ratelimit-policy') ?? '')
  const draft7 = text !== undefined && draft7Quota(structuredList(text), policies, now)
  if (draft7) return [draft7]
  const windows = new Map<string, QuotaInfo>()
  for (const { value, parameters } of policies) {
    const limit = wholeOf(parameters.get('q'))
    if (limit === undefined) continue
    windows.set(value, {
      policy: value,
      limit,
      ...part('windowMs', secondsOf(parameters.get('w'))),
      form: 'draft-8',
    })
  }
  const quotas: QuotaInfo[] = []
  for (const { value, parameters, strings } of structuredList(text ?? '')) {
    // The draft after 11 calls them available units and effective window.
    const [left, reset] = ['r', 't'].map(name => (parameters.has(name) ? name : name === 'r' ? 'a' : 'w'))
    const remaining = wholeOf(parameters.get(left))
    if (remaining === undefined || strings.has(left) || strings.has(reset)) continue
    const policy = windows.get(value)
    windows.delete(value)
    quotas.push({
      policy: value,
      ...part('limit', policy?.limit),
      remaining,
      ...part('resetAfterMs', resetOf(parameters.get(reset), now)),
      ...part('windowMs', policy?.windowMs),
      form: 'draft-8',
    })
  }
  const found = [...quotas, ...windows.values()]
  const hasDraft6 = DRAFT_6.some(name => read(name) !== undefined)
  return found.length === 0 && text === undefined && !hasDraft6 ? policies.flatMap(classicPolicy) : found
}

/** A policy of draft 6 or 7 alone, like "100;w=60". */
function classicPolicy({ value, parameters, strings }: ListItem): QuotaInfo[] {
  const [limit, windowMs] = [wholeOf(value), strings.has('w') ? undefined : secondsOf(parameters.get('w'))]
  return limit === undefined || windowMs === undefined ? [] : [{ limit, windowMs, form: 'draft-7' }]
}

function draft7Quota(items: readonly ListItem[], policies: readonly ListItem[], now: number): QuotaInfo | undefined {
  const members = new Map(items.map(({ value }) => value.toLowerCase().split('=', 2) as [string, string]))
  const [limit, remaining, reset] = ['limit', 'remaining', 'reset'].map(name => members.get(name))
  return classicQuota('draft-7', wholeOf(limit), wholeOf(remaining), resetOf(reset, now), policies)
}

const DRAFT_6 = ['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset']

function draft6Quotas(read: Read, now: number): QuotaInfo[] {
  const [limitText, remainingText, resetText] = DRAFT_6.map(read)
  // Draft 6 may repeat the policies behind the limit: "100, 100;w=60". Docker Hub gives the window of the limit itself:
  // "100;w=21600".
  const limits = structuredList(limitText ?? '')
  const [remaining] = structuredList(remainingText ?? '')
  const policies = [...structuredList(read('ratelimit-policy') ?? ''), ...limits]
  const [limit, left] = [limits[0]?.value, remaining?.value].map(wholeOf)
  const quota = classicQuota('draft-6', limit, left, resetOf(resetText, now), policies)
  return quota === undefined ? [] : [quota]
}

/** Drafts 6 and 7 report the most exhausted limit, whose window is that of the policy with the same quota. */
function classicQuota(
  form: QuotaInfo['form'],
  limit: number | undefined,
  remaining: number | undefined,
  resetAfterMs: number | undefined,
  policies: readonly ListItem[],
  windowText?: string,
): QuotaInfo | undefined {
  if (limit === undefined && remaining === undefined && resetAfterMs === undefined) return undefined
  const policy = policies.find(({ value, parameters }) => decimalOf(value) === limit && parameters.has('w'))
  const windowMs = secondsOf(windowText) ?? (limit === undefined ? undefined : secondsOf(policy?.parameters.get('w')))
  return {
    ...part('limit', limit),
    ...part('remaining', remaining),
    ...part('resetAfterMs', resetAfterMs),
    ...part('windowMs', windowMs),
    form,
  }
}

/** What services that sell tokens count. */
const COUNTED = ['requests', 'tokens', 'input-tokens', 'output-tokens']

function legacyQuotas(read: Read, now: number): QuotaInfo[] {
  const quotas: QuotaInfo[] = []
  const add = (
    limit: number | undefined,
    remaining: number | undefined,
    reset: number | undefined,
    policy?: string,
  ) => {
    const quota = classicQuota('legacy', limit, remaining, reset, [])
    if (quota !== undefined) quotas.push(policy === undefined ? quota : { policy, ...quota })
  }
  for (const prefix of ['x-ratelimit', 'x-rate-limit']) {
    // Envoy repeats the policies, as draft 6 may: '10, 10;w=1;name="a"'.
    const limits = structuredList(read(`${prefix}-limit`) ?? '')
    const [limit, remaining] = [limits[0]?.value, read(`${prefix}-remaining`)].map(decimalOf)
    const reset = secondsOf(read(`${prefix}-reset-after`)) ?? resetOf(read(`${prefix}-reset`), now)
    const quota = classicQuota('legacy', limit, remaining, reset, limits, read(`${prefix}-interval-seconds`))
    if (quota !== undefined) quotas.push(quota)
  }
  for (const counted of COUNTED) {
    const [limit, remaining, reset] = ['limit', 'remaining', 'reset'].map(
      field => read(`x-ratelimit-${field}-${counted}`) ?? read(`anthropic-ratelimit-${counted}-${field}`),
    )
    add(decimalOf(limit), decimalOf(remaining), resetOf(reset, now), counted)
  }
  const shopify = /^\s*(\d{1,15})\s*\/\s*(\d{1,15})\s*$/.exec(read('x-shopify-shop-api-call-limit') ?? '')
  if (shopify) {
    const [used, limit] = [Number(shopify[1]), Number(shopify[2])]
    add(limit, Math.max(0, limit - used), undefined)
  }
  return quotas
}

/**
 * In how many ms units come back. Services do not agree on what a reset is: its size tells whether it is seconds from
 * now, seconds since the epoch, or ms since the epoch; it may also be a date, or a duration like "6m0s".
 */
function resetOf(text: string | undefined, now: number): number | undefined {
  const trimmed = text?.trim()
  if (trimmed === undefined) return undefined
  const number = decimalOf(trimmed)
  if (number !== undefined && number < 1e8) return secondsOf(trimmed)
  const duration = goDurationOf(trimmed)
  if (duration !== undefined) return duration
  const at = number === undefined ? dateOf(trimmed) : number < 1e11 ? number * 1000 : number
  return at === undefined ? undefined : Math.max(0, Math.ceil(at - now))
}

function wholeOf(text: string | undefined): number | undefined {
  const number = decimalOf(text)
  return number !== undefined && Number.isSafeInteger(number) ? number : undefined
}

function part<Name extends string>(name: Name, value: number | undefined): Partial<Record<Name, number>> {
  return value === undefined ? {} : ({ [name]: value } as Record<Name, number>)
}
