const DECIMAL = /^\d{1,15}(?:\.\d{1,15})?$/
const ISO = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})$/
// The three forms of RFC 9110, section 5.6.7: "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994".
const HTTP_DATE = [
  /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{5,8}, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/,
]

/** A number ≥ 0, as digits with or without a fraction; undefined for anything else. */
export function decimalOf(text: string | undefined): number | undefined {
  const trimmed = text?.trim()
  return trimmed !== undefined && DECIMAL.test(trimmed) ? Number(trimmed) : undefined
}

/** Seconds ≥ 0 as whole milliseconds, rounded up; undefined for anything else, also for more than 2^53 ms. */
export function secondsOf(text: string | undefined): number | undefined {
  const seconds = decimalOf(text)
  if (seconds === undefined) return undefined
  // 0.1 s must not become 101 ms because 0.1 * 1000 is a little more than 100 in other cases.
  const ms = Math.ceil(Number((seconds * 1000).toFixed(3)))
  return Number.isSafeInteger(ms) ? ms : undefined
}

/** A date of HTTP as ms since the epoch; undefined for anything else. */
export function httpDateOf(text: string): number | undefined {
  const form = HTTP_DATE.findIndex(pattern => pattern.test(text))
  // The last form does not say that it is GMT.
  return form < 0 ? undefined : numberOf(Date.parse(form === 2 ? `${text} GMT` : text))
}

/** A date of HTTP or of ISO 8601 as ms since the epoch; undefined for anything else. */
export function dateOf(text: string): number | undefined {
  return ISO.test(text) ? numberOf(Date.parse(text)) : httpDateOf(text)
}

function numberOf(ms: number): number | undefined {
  return Number.isNaN(ms) ? undefined : ms
}
