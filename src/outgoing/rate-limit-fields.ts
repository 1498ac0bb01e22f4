import { dateOf, decimalOf, secondsOf } from './field-values.js'
import { fieldReader, type HeaderFields } from './header-fields.js'
import { type ListItem, structuredList } from './structured-list.js'

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
