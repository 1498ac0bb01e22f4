import { TimeoutError } from '../limiter/core/errors.js'
import { guardRedis } from '../redis/guarded-redis.js'
import { cloned, copied } from './copied-answer.js'
import { CallLine } from './line.js'
import { type PoliteOptions, parseOptions, partnerNames, webUrlOf } from './options.js'
import { Partner, Partners } from './partner.js'
import { type Asked, askedBy, discard } from './refusal.js'
import { Route } from './route.js'
import { SharedLine } from './shared-line.js'

/** The backoff if a refusal has no Retry-After; doubled each time. */
const BACKOFF_MS = 500
/** How long Redis may take to answer. */
const DEADLINE_MS = 1000
const OVER_REDIS = {
  name: 'politeFetch',
  meanwhile: 'each process keeps to the limits of its partners by itself (politeFetch)',
}

/** A `fetch` that keeps to its partners' limits. */
export interface PoliteFetch {
  (input: string | URL | Request, init?: RequestInit): Promise<Response>
  /**
   * Ends the pause that a partner has asked for. Calls that wait for its end leave within a quarter of a second; over
   * Redis, those of other processes within two seconds. `partner` is named as in `limits`; nothing happens if it has no
   * pause. Rejects with `PolicyError` for a text that cannot be a partner, and with `StoreError` if Redis does not
   * answer: then the pause is over in this process only, until Redis answers again.
   */
  resume(partner: string): Promise<void>
}

/**
 * A `fetch` that keeps to its partners' limits: it waits before it would be refused, and after a partner asks for a
 * pause. It reads only status and header fields of answers. URLs with other schemes than http and https are fetched
 * directly. Throws `PolicyError` for invalid options.
 *
 * A call rejects as `fetch` does, with `TimeoutError` when it would wait longer than `maxWait`, and with the reason of
 * its signal, which ends every wait. A redirect belongs to the call: the partner is that of the first URL.
 */
export function politeFetch(options: PoliteOptions = {}): PoliteFetch {
  const {
    limits,
    client,
    prefix,
    partnerOf,
    priorityOf,
    nameOf,
    retries,
    isRepeatable,
    maxWaitMs,
    send: fetched,
    observer,
  } = parseOptions(options)
  const redis = client && { client, prefix, guarded: guardRedis(client, DEADLINE_MS, observer, OVER_REDIS) }
  const partners = new Partners(name => new Partner(name, limits.get(name), redis, observer))
  const line = redis === undefined ? new CallLine() : new SharedLine(redis.client, redis.guarded, prefix)

  const polite = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const request = requestOf(input)
    const url = webUrlOf(request?.url ?? String(input))
    if (url === undefined) return fetched(input, init)
    const called = partnerNames(partnerOf(url, init)).map(name => partners.of(name))
    const priority = priorityOf(url, init)
    // As for fetch, null takes the signal of the request away.
    const signal = (init?.signal === undefined ? request?.signal : init.signal) ?? undefined
    const most = canSendAgain(request, init) ? retries : 0
    const isSafe = isRepeatable(
      init?.method ?? request?.method ?? 'GET',
      new Headers(init?.headers ?? request?.headers),
    )
    const route = new Route(called, line)
    try {
      let leftMs = maxWaitMs - (await route.estimate(url, init, { timeoutMs: maxWaitMs, signal }))
      let answer: Response | undefined
      /** Undefined before the first refusal; 0: the pause of the partner says how long to wait. */
      let delayMs: number | undefined
      for (let attempt = 0; ; attempt++) {
        const before = answer
        const send = () => {
          discard(before)
          return fetched(input, init)
        }
        const sent = await route.send({ timeoutMs: leftMs, signal }, priority, delayMs, send).catch(error => {
          if (before !== undefined && error instanceof TimeoutError) return undefined
          discard(before)
          throw error
        })
        if (sent === undefined) return before as Response
        const { departure } = sent
        let asked: Asked
        let isRepeated: boolean
        let copy: Response | undefined
        try {
          answer = await sent.answer
          asked = askedBy(answer, route.isLimited)
          const mayRepeat = asked.refuses === 'not carried out' || (asked.refuses === 'perhaps carried out' && isSafe)
          isRepeated = mayRepeat && attempt < most
          // What is thrown away here, and not by the caller, is read to its end all the same.
          if (route.settles) [answer, copy] = isRepeated ? [answer, cloned(answer)] : copied(answer)
        } catch (error) {
          departure.answered()
          throw error
        }
        departure.answered(true)
        if (copy !== undefined) {
          const unread = copy === answer ? undefined : copy
          void route.settle(copy, departure).then(() => discard(unread))
        }
        const { pauseMs } = asked
        if (pauseMs !== undefined) route.asksFor(pauseMs)
        if (!isRepeated) return answer
        delayMs = pauseMs === undefined ? BACKOFF_MS * 2 ** attempt : 0
        leftMs = maxWaitMs
      }
    } finally {
      route.leave()
    }
  }
  return Object.assign(polite, {
    resume: async (partner: string) => partners.of(nameOf(partner, 'politeFetch: resume')).resume(),
  })
}

/** A Request, of this realm or of another implementation of fetch. */
function requestOf(input: string | URL | Request): Request | undefined {
  return typeof input === 'object' && 'url' in input && typeof input.url === 'string' ? input : undefined
}

/** False for a body that is read while it is sent. */
function canSendAgain(request: Request | undefined, init: RequestInit | undefined): boolean {
  const body: unknown = init?.body
  if (body === undefined || body === null) return request === undefined || request.body === null
  return (
    typeof body === 'string' ||
    body instanceof ArrayBuffer ||
    ArrayBuffer.isView(body) ||
    body instanceof URLSearchParams ||
    body instanceof FormData ||
    body instanceof Blob
  )
}
