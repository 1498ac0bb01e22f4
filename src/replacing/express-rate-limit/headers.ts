import { createHash } from 'node:crypto'
import type { Response } from 'express'
import { BoundedMap, getOrMake } from '../../limiter/core/maps.js'
import type { RateLimitInfo } from './options.js'

/**
 * Headers in the exact form of express-rate-limit 8; its draft 8 differs from ours in spaces and in `pk`, and clients
 * may depend on it.
 */

/** `X-RateLimit-*`. Their `Reset` is a moment, for which clients need a `Date`: Node sets it when the response begins. */
export function setLegacyHeaders(response: Response, { limit, remaining, resetTime }: RateLimitInfo): void {
  response.setHeader('X-RateLimit-Limit', limit.toString())
  response.setHeader('X-RateLimit-Remaining', remaining.toString())
  if (!(resetTime instanceof Date)) return
  response.setHeader('X-RateLimit-Reset', Math.ceil(resetTime.getTime() / 1000).toString())
}

/** Of an unknown draft: none. */
export function setStandardHeaders(
  response: Response,
  draft: unknown,
  info: RateLimitInfo,
  windowMs: number,
  name?: string,
): void {
  const { limit, remaining, key } = info
  const window = Math.ceil(windowMs / 1000)
  const reset = resetSeconds(info, windowMs)
  if (draft === 'draft-6' || draft === 'draft-7') response.setHeader('RateLimit-Policy', `${limit};w=${window}`)
  if (draft === 'draft-6') {
    response.setHeader('RateLimit-Limit', limit.toString())
    response.setHeader('RateLimit-Remaining', remaining.toString())
    response.setHeader('RateLimit-Reset', reset.toString())
  } else if (draft === 'draft-7') {
    response.setHeader('RateLimit', `limit=${limit}, remaining=${remaining}, reset=${reset}`)
  } else if (draft === 'draft-8') {
    // The only form for several limiters: each adds its own.
    append(response, 'RateLimit', `"${name}"; r=${remaining}; t=${reset}`)
    append(response, 'RateLimit-Policy', `"${name}"; q=${limit}; w=${window}; pk=:${partitionKey(String(key))}:`)
  }
}

/** Whole seconds until the window ends, rounded up; if the end is unknown, the whole window. */
export function resetSeconds({ resetTime }: Pick<RateLimitInfo, 'resetTime'>, windowMs: number): number {
  if (!resetTime) return Math.ceil(windowMs / 1000)
  return Math.max(0, Math.ceil((resetTime.getTime() - Date.now()) / 1000))
}

function append(response: Response, name: string, value: string): void {
  const before = response.getHeader(name)
  if (before === undefined) response.setHeader(name, value)
  else response.setHeader(name, [before, value].flat().map(String))
}

const partitions = new BoundedMap<string, string>(1000)

/** Distinguishes clients without revealing the key: the first 12 hex digits of the key's SHA-256, in base64. */
function partitionKey(key: string): string {
  return getOrMake(partitions, key, () => {
    const digits = createHash('sha256').update(key).digest('hex').slice(0, 12)
    return Buffer.from(digits).toString('base64')
  })
}
