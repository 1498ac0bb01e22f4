import { parseRateLimit, parseRetryAfter } from './fields.js'

/** What an answer asks for. */
export interface Asked {
  /** Undefined: no pause of the partner. */
  readonly pauseMs: number | undefined
  /** It refuses this call, which may be sent again: because it was not carried out, or if that does no harm. */
  readonly refuses: 'not carried out' | 'perhaps carried out' | undefined
}

/** Of answers that refuse a call; 529: Anthropic is overloaded. */
const NOT_CARRIED_OUT = new Set([429, 529])

/**
 * What an answer asks for. Only a `Retry-After` or a RateLimit field says when units come back, and so pauses the
 * partner. 403 is a refusal if one of them is there (GitHub). `isLimited`: this process knows how much the partner
 * allows in a time; then the whole seconds of a field that comes with an answer which refuses nothing would halve the
 * rate.
 */
export function askedBy({ status, headers }: Response, isLimited: boolean): Asked {
  const now = clockOf(headers)
  const resetMs = resetAfter(headers, now)
  const retryAfterMs = parseRetryAfter(headers, now)
  const isRefusal = NOT_CARRIED_OUT.has(status) || (status === 403 && (retryAfterMs ?? resetMs) !== undefined)
  if (isRefusal) return { pauseMs: retryAfterMs ?? resetMs, refuses: 'not carried out' }
  if (status === 503) return { pauseMs: retryAfterMs ?? resetMs, refuses: 'perhaps carried out' }
  return { pauseMs: isLimited ? undefined : resetMs, refuses: undefined }
}

/** The longest time until units come back, of the limits of which none is left; undefined: no field says so. */
function resetAfter(headers: Headers, now: number): number | undefined {
  let longest: number | undefined
  for (const { remaining, resetAfterMs } of parseRateLimit(headers, now)) {
    // A moment that has passed says nothing: units did not come back then.
    if (remaining === 0 && resetAfterMs) longest = Math.max(longest ?? 0, resetAfterMs)
  }
  return longest
}

/** The moment of the answer by the partner's own clock, ms since the epoch: its dates are read against it. */
function clockOf(headers: Headers): number {
  const at = Date.parse(headers.get('date') ?? '')
  return Number.isNaN(at) ? Date.now() : at
}

/** Throws an answer away that nobody reads, so that its connection is free. Never throws. */
export function discard(answer: Response | undefined): void {
  // Other implementations of fetch give a stream of Node.
  const body = answer?.body as (Partial<ReadableStream> & { destroy?(): void }) | null | undefined
  try {
    body?.cancel?.().catch(() => {})
    body?.destroy?.()
  } catch {
    // It is read elsewhere.
  }
}
