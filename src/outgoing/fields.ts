const DECIMAL = /^\d{1,15}(?:\.\d{1,15})?$/
const ISO = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})$/
// The three forms of RFC 9110, section 5.6.7: "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994".
const HTTP_DATE = [
  /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{5,8}, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/,
]

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

/** Reads fields by their lower-case names; several fields of one name are joined by commas. undefined: there is none. Never throws. */
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
 * The wait that the field `Retry-After` asks for (RFC 9110, section 10.2.3), in ms: a number of seconds, or a date relative
 * to `now` (ms since the epoch; default: this moment). 0 for a past date. More than `Number.MAX_SAFE_INTEGER` ms counts as so many. undefined if there is no such field, or its value
 * is invalid. Never throws.
 */
export function parseRetryAfter(headers: HeaderFields, now = Date.now()): number | undefined {
  const text = fieldReader(headers)('retry-after')?.trim()
  if (text === undefined) return undefined
  const wait = secondsOf(text)
  if (wait !== undefined) return wait
  if (/^\d+$/.test(text)) return Number.MAX_SAFE_INTEGER
  const at = httpDateOf(text)
  return at === undefined ? undefined : Math.max(0, at - now)
}

/** An item of a list of structured fields (RFC 9651): its value, and its parameters as text. */
interface ListItem {
  readonly value: string
  readonly parameters: ReadonlyMap<string, string>
}

const SPACE = /[ \t]*/y
const VALUE = /"((?:[^"\\]|\\["\\])*)"|([^\s",;]+)/y
const PARAMETER = /[ \t]*;[ \t]*([A-Za-z*][\w.*-]*)(?:=(?:"((?:[^"\\]|\\["\\])*)"|([^\s",;]*)))?/y

/**
 * The items of a list like `"day";q=100;w=86400, "second";q=5;w=1`. Strings lose their quotes. What is malformed is left out, up
 * to the next comma. Takes time in proportion to the length of the text.
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
      for (let match = take(PARAMETER); match !== null; match = take(PARAMETER)) {
        parameters.set(match[1].toLowerCase(), unquoted(match[2]) ?? match[3] ?? '')
      }
      take(SPACE)
      if (at === text.length || text[at] === ',') items.push({ value: unquoted(value[1]) ?? value[2], parameters })
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
  /** The name that the server gives to the limit (draft 8 and later). */
  readonly policy?: string
  /** Units per window. */
  readonly limit?: number
  /** Units that are left now. */
  readonly remaining?: number
  /** In how many ms units come back; 0 for a moment that has passed. */
  readonly resetAfterMs?: number
  /** The length of the window, ms. */
  readonly windowMs?: number
  /** The form of the fields: a draft of the IETF ('draft-8' also for 9 to 11), or 'legacy' for X-RateLimit-*. */
  readonly form: 'draft-8' | 'draft-7' | 'draft-6' | 'legacy'
}

type Read = (name: string) => string | undefined

/**
 * Reads the limits in a response: `RateLimit` and `RateLimit-Policy` of drafts 7 to 11, `RateLimit-Limit`, `-Remaining` and `-Reset` of draft 6,
 * `X-RateLimit-*` and `X-Rate-Limit-*` as GitHub, Discord, Reddit and Atlassian send them, and `X-Shopify-Shop-Api-Call-Limit`. A response that uses several
 * forms returns the newest first. Malformed parts are omitted. `now`: ms since the epoch; default: this moment. Never throws.
 */
export function parseRateLimit(headers: HeaderFields, now = Date.now()): QuotaInfo[] {
  const read = fieldReader(headers)
  return [...structuredQuotas(read), ...draft6Quotas(read), ...legacyQuotas(read, now)]
}

/** Drafts 7 and later: both use the field `RateLimit`; only draft 7 has items like limit=100. */
function structuredQuotas(read: Read): QuotaInfo[] {
  const text = read('ratelimit')
  const policies = structuredList(read('ratelimit-policy') ?? '')
  const draft7 = text !== undefined && draft7Quota(structuredList(text), policies)
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
  for (const { value, parameters } of structuredList(text ?? '')) {
    const remaining = wholeOf(parameters.get('r'))
    if (remaining === undefined) continue
    const policy = windows.get(value)
    windows.delete(value)
    quotas.push({
      policy: value,
      ...part('limit', policy?.limit),
      remaining,
      ...part('resetAfterMs', secondsOf(parameters.get('t'))),
      ...part('windowMs', policy?.windowMs),
      form: 'draft-8',
    })
  }
  return [...quotas, ...windows.values()]
}

function draft7Quota(items: readonly ListItem[], policies: readonly ListItem[]): QuotaInfo | undefined {
  const members = new Map(items.map(({ value }) => value.toLowerCase().split('=', 2) as [string, string]))
  return classicQuota('draft-7', members.get('limit'), members.get('remaining'), members.get('reset'), policies)
}

function draft6Quotas(read: Read): QuotaInfo[] {
  // Draft 6 may repeat the policies behind the limit: "100, 100;w=60".
  const [limit, ...repeated] = structuredList(read('ratelimit-limit') ?? '')
  const policies = [...structuredList(read('ratelimit-policy') ?? ''), ...repeated]
  const quota = classicQuota('draft-6', limit?.value, read('ratelimit-remaining'), read('ratelimit-reset'), policies)
  return quota === undefined ? [] : [quota]
}

/** Drafts 6 and 7 report the most exhausted limit, whose window is that of the policy with the same quota. */
function classicQuota(
  form: QuotaInfo['form'],
  limitText: string | undefined,
  remainingText: string | undefined,
  resetText: string | undefined,
  policies: readonly ListItem[],
): QuotaInfo | undefined {
  const limit = wholeOf(limitText)
  const remaining = wholeOf(remainingText)
  const resetAfterMs = secondsOf(resetText)
  if (limit === undefined && remaining === undefined && resetAfterMs === undefined) return undefined
  const policy = policies.find(({ value, parameters }) => wholeOf(value) === limit && parameters.has('w'))
  const windowMs = limit === undefined ? undefined : secondsOf(policy?.parameters.get('w'))
  return {
    ...part('limit', limit),
    ...part('remaining', remaining),
    ...part('resetAfterMs', resetAfterMs),
    ...part('windowMs', windowMs),
    form,
  }
}

function legacyQuotas(read: Read, now: number): QuotaInfo[] {
  const quotas: QuotaInfo[] = []
  for (const prefix of ['x-ratelimit', 'x-rate-limit']) {
    const limit = decimalOf(read(`${prefix}-limit`))
    const remaining = decimalOf(read(`${prefix}-remaining`))
    const resetAfterMs = secondsOf(read(`${prefix}-reset-after`)) ?? legacyReset(read(`${prefix}-reset`), now)
    if (limit === undefined && remaining === undefined && resetAfterMs === undefined) continue
    quotas.push({
      ...part('limit', limit),
      ...part('remaining', remaining),
      ...part('resetAfterMs', resetAfterMs),
      ...part('windowMs', secondsOf(read(`${prefix}-interval-seconds`))),
      form: 'legacy',
    })
  }
  const shopify = /^\s*(\d{1,15})\s*\/\s*(\d{1,15})\s*$/.exec(read('x-shopify-shop-api-call-limit') ?? '')
  if (shopify) {
    const [used, limit] = [Number(shopify[1]), Number(shopify[2])]
    quotas.push({ limit, remaining: Math.max(0, limit - used), form: 'legacy' })
  }
  return quotas
}

/** X-RateLimit-Reset has no definition. Its size tells whether it is seconds from now, seconds since the epoch, or ms since the epoch. */
function legacyReset(text: string | undefined, now: number): number | undefined {
  if (text === undefined) return undefined
  const number = decimalOf(text)
  if (number !== undefined && number < 1e8) return secondsOf(text)
  const at = number === undefined ? dateOf(text.trim()) : number < 1e11 ? number * 1000 : number
  return at === undefined ? undefined : Math.max(0, Math.ceil(at - now))
}

function wholeOf(text: string | undefined): number | undefined {
  const number = decimalOf(text)
  return number !== undefined && Number.isSafeInteger(number) ? number : undefined
}

function part<Name extends string>(name: Name, value: number | undefined): Partial<Record<Name, number>> {
  return value === undefined ? {} : ({ [name]: value } as Record<Name, number>)
}
