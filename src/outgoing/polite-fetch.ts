import { PolicyError, shown, TimeoutError } from '../core/errors.js'
import { RedisHealth } from '../http/concurrency/redis-health.js'
import { type PoliteOptions, parseOptions } from './options.js'
import { Partner } from './partner.js'
import { Partners } from './partners.js'
import { parseRateLimit } from './rate-limit-fields.js'
import { parseRetryAfter } from './retry-after.js'

/** The backoff if a refusal has no Retry-After; doubled each time. */
const BACKOFF_MS = 500
/** How long Redis may take to answer. */
const DEADLINE_MS = 1000
const HEALTH_USER = {
  name: 'politeFetch',
  meanwhile: 'each process keeps to the limits of its partners by itself (politeFetch)',
}

/**
 * A `fetch` that keeps to its partners' limits: it waits before it would be refused, and after a partner asks for a pause. It reads only
 * status and header fields of answers. URLs with other schemes than http and https are fetched directly. Throws `PolicyError` for
 * invalid options.
 *
 * A call rejects as `fetch` does, with `TimeoutError` when it would wait longer than `maxWait`, and with the reason of its signal, which
 * ends every wait.
 */
export function politeFetch(options: PoliteOptions = {}): typeof fetch {
  const { limits, client, partnerOf, retries, maxWaitMs, send, observer } = parseOptions(options)
  const health = client && new RedisHealth(client, DEADLINE_MS, observer, HEALTH_USER)
  const redis = client && health && { client, health }
  const partners = new Partners(name => new Partner({ name, limit: limits.get(name), redis, observer }))

  return async (input, init) => {
    const url = urlOf(input)
    if (url === undefined) return send(input, init)
    const name = partnerOf(url, init)
    if (typeof name !== 'string' || name === '') {
      throw new PolicyError(
        `politeFetch: partner returned ${shown(name)}: expected a text that is not empty, like the origin`,
      )
    }
    const partner = partners.of(name)
    const signal = init?.signal ?? (input instanceof Request ? input.signal : undefined)
    const most = canSendAgain(input, init) ? retries : 0
    let answer: Response | undefined
    for (let attempt = 0; ; attempt++) {
      const pass = await partner.enter(maxWaitMs, signal, attempt > 0).catch(error => {
        if (answer !== undefined && error instanceof TimeoutError) return undefined
        discard(answer)
        throw error
      })
      if (pass === undefined) return answer as Response
      discard(answer)
      try {
        answer = await send(input, init)
      } finally {
        pass.end()
      }
      const waitMs = waitAskedBy(answer, partner.isLimited, attempt)
      if (waitMs === undefined) return answer
      partner.pause(waitMs)
      if (!isRefusal(answer) || attempt >= most) return answer
    }
  }
}

function isRefusal({ status }: Response): boolean {
  return status === 429 || status === 503
}

/** The pause that an answer asks for, ms; undefined: none. */
function waitAskedBy(answer: Response, isLimited: boolean, attempt: number): number | undefined {
  const { headers } = answer
  const refused = isRefusal(answer)
  const asked = refused ? parseRetryAfter(headers) : undefined
  if (asked !== undefined) return asked
  // With our own limits, the whole seconds of a header field would halve the rate.
  if (!refused && isLimited) return undefined
  let longest: number | undefined
  for (const { remaining, resetAfterMs } of parseRateLimit(headers)) {
    if (remaining === 0 && resetAfterMs !== undefined) longest = Math.max(longest ?? 0, resetAfterMs)
  }
  return longest ?? (refused ? BACKOFF_MS * 2 ** attempt : undefined)
}

function urlOf(input: string | URL | Request): URL | undefined {
  const text = input instanceof Request ? input.url : String(input)
  const url = URL.canParse(text) ? new URL(text) : undefined
  return url !== undefined && (url.protocol === 'http:' || url.protocol === 'https:') ? url : undefined
}

/** False for a body that is read while it is sent. */
function canSendAgain(input: string | URL | Request, init: RequestInit | undefined): boolean {
  const body: unknown = init?.body
  if (body === undefined || body === null) return !(input instanceof Request) || input.body === null
  return (
    typeof body === 'string' ||
    body instanceof ArrayBuffer ||
    ArrayBuffer.isView(body) ||
    body instanceof URLSearchParams ||
    body instanceof FormData ||
    body instanceof Blob
  )
}

/** Frees the connection of an unread answer. */
function discard(answer: Response | undefined): void {
  answer?.body?.cancel().catch(() => {})
}
