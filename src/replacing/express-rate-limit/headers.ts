import { createHash } from 'node:crypto'
import type { Response } from 'express'
import type { RateLimitInfo } from './options.js'

/**
 * Headers in the exact form of express-rate-limit 8; its draft 8 differs from ours in spaces and in `pk`, and clients
 * may depend on it.
 */

/** `X-RateLimit-*`, and a `Date`, which clients need because `X-RateLimit-Reset` is a moment. */
export function setLegacyHeaders(response: Response, { limit, remaining, resetTime }: RateLimitInfo): void {
  response.setHeader('X-RateLimit-Limit', limit.toString())
  response.setHeader('X-RateLimit-Remaining', remaining.toString())
  if (!(resetTime instanceof Date)) return
  response.setHeader('Date', dateText())
  response.setHeader('X-RateLimit-Reset', Math.ceil(resetTime.getTime() / 1000).toString())
}

export function setDraft6Headers(response: Response, info: RateLimitInfo, windowMs: number): void {
  response.setHeader('RateLimit-Policy', policyText(info, windowMs))
  response.setHeader('RateLimit-Limit', info.limit.toString())
  response.setHeader('RateLimit-Remaining', info.remaining.toString())
  response.setHeader('RateLimit-Reset', resetSeconds(info, windowMs).toString())
}

export function setDraft7Headers(response: Response, info: RateLimitInfo, windowMs: number): void {
  const { limit, remaining } = info
  response.setHeader('RateLimit-Policy', policyText(info, windowMs))
  response.setHeader('RateLimit', `limit=${limit}, remaining=${remaining}, reset=${resetSeconds(info, windowMs)}`)
}

/** The only form for several limiters: each adds its own. */
export function setDraft8Headers(response: Response, info: RateLimitInfo, windowMs: number, name: string): void {
  const { limit, remaining, key } = info
  const partition = partitionKey(key)
  append(response, 'RateLimit', `"${name}"; r=${remaining}; t=${resetSeconds(info, windowMs)}`)
  append(response, 'RateLimit-Policy', `"${name}"; q=${limit}; w=${Math.ceil(windowMs / 1000)}; pk=:${partition}:`)
}

/** Whole seconds until the window ends, rounded up; if the end is unknown, the whole window. */
export function resetSeconds({ resetTime }: Pick<RateLimitInfo, 'resetTime'>, windowMs: number): number {
  if (!resetTime) return Math.ceil(windowMs / 1000)
  return Math.max(0, Math.ceil((resetTime.getTime() - Date.now()) / 1000))
}

function policyText({ limit }: RateLimitInfo, windowMs: number): string {
  return `${limit};w=${Math.ceil(windowMs / 1000)}`
}

function append(response: Response, name: string, value: string): void {
  const before = response.getHeader(name)
  if (before === undefined) response.setHeader(name, value)
  else response.setHeader(name, [before, value].flat().map(String))
}

const MOST_PARTITIONS = 1000
const partitions = new Map<string, string>()

/** Distinguishes clients without revealing the key: the first 12 hex digits of the key's SHA-256, in base64. */
function partitionKey(key: string): string {
  let partition = partitions.get(key)
  if (partition === undefined) {
    const digits = createHash('sha256').update(key).digest('hex').slice(0, 12)
    partition = Buffer.from(digits).toString('base64')
    if (partitions.size >= MOST_PARTITIONS) partitions.clear()
    partitions.set(key, partition)
  }
  return partition
}

let dateSecond = Number.NaN
let dateOfSecond = ''

/** The same text for all responses of one second. */
function dateText(): string {
  const now = Date.now()
  const second = Math.floor(now / 1000)
  if (second !== dateSecond) {
    dateSecond = second
    dateOfSecond = new Date(now).toUTCString()
  }
  return dateOfSecond
}
