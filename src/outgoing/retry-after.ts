import { httpDateOf, secondsOf } from './field-values.js'
import { fieldReader, type HeaderFields } from './header-fields.js'

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
