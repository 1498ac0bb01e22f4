import { isIPv6 } from 'node:net'
import type { Request, Response } from 'express'
import { after, type SyncOrAsync } from '../../http/sync-or-async.js'
import { promised } from '../../limiter/hit-store.js'
import { DEFAULT_WINDOW_MS } from './hits.js'
import { ipKeyGenerator } from './ip-key.js'
import { MemoryStore } from './memory-store.js'
import type { Options, RateLimitOptions, Store } from './options.js'
import { type Logger, type Validations, validationsOf } from './validations.js'

/** Options without a default; and those of express-slow-down, which passes its own on. */
const OTHERS =
  'standardHeaders store logger validate retryAfter headers max algorithm policy delayAfter delayMs maxDelayMs'

/**
 * The options as handlers receive them, with their defaults, and the validations. As in express-rate-limit, undefined
 * counts as absent, and the given object is not changed. Throws `TypeError` for an invalid store or logger.
 */
export function optionsOf(passed: RateLimitOptions): { readonly options: Options; readonly validations: Validations } {
  const given: Partial<Options> = Object.fromEntries(Object.entries(passed).filter(([, value]) => value !== undefined))
  const logger = passed.logger ?? consoleLogger
  checkLogger(logger)
  const validations = validationsOf(given.validate ?? true, logger)
  const defaults = {
    windowMs: DEFAULT_WINDOW_MS,
    limit: passed.max ?? 5,
    message: 'Too many requests, please try again later.',
    statusCode: 429,
    legacyHeaders: passed.headers ?? true,
    identifier: (request: Request, _response: Response, windowMs = options.windowMs) =>
      identifierOf(request, options, windowMs),
    requestPropertyName: 'rateLimit',
    skipFailedRequests: false,
    skipSuccessfulRequests: false,
    requestWasSuccessful: (_request: Request, response: Response) => response.statusCode < 400,
    skip: () => false,
    keyGenerator: (request: Request, response: Response) => addressKeyOf(request, response, options, validations),
    ipv6Subnet: 56,
    handler: (request: Request, response: Response) => refuse(request, response, options),
    passOnStoreError: false,
  } satisfies Partial<Record<keyof Options, unknown>>
  validations.knownOptions(passed, [...Object.keys(defaults), ...OTHERS.split(' ')])
  if (given.ipv6Subnet !== undefined && typeof given.ipv6Subnet !== 'function') validations.ipv6Subnet(given.ipv6Subnet)
  validations.keyGeneratorIpFallback(given.keyGenerator)
  validations.ipv6SubnetOrKeyGenerator(given)
  const options: Options = {
    ...defaults,
    ...given,
    standardHeaders: given.standardHeaders === true ? 'draft-6' : (given.standardHeaders ?? false),
    store: storeOf(given.store),
    validate: validations.enabled,
    logger,
  } as Options
  return { options, validations }
}

const consoleLogger: Logger = {
  warn: (...args) => console.warn(...args.reverse()),
  error: (...args) => console.error(...args.reverse()),
}

function checkLogger({ error, warn }: Partial<Logger>): void {
  if (typeof error === 'function' && typeof warn === 'function') return
  throw new TypeError('Provided logger does not implement the Logger interface')
}

function storeOf(passed: Options['store'] | null | undefined): Options['store'] {
  const given = passed ?? new MemoryStore()
  if ('consume' in given && typeof given.consume === 'function') return given
  const store = promised(given)
  const { increment, decrement, resetKey, resetAll, init } = store as Partial<Store>
  const possible = [resetAll, init].filter(method => method !== undefined)
  if ([increment, decrement, resetKey, ...possible].every(method => typeof method === 'function')) return store as Store
  throw new TypeError(
    'An invalid store was passed. Please ensure that the store is a class that implements the `Store` interface.',
  )
}

/** Usually the same as for the previous request. */
let named = { limit: Number.NaN, windowMs: 0, name: '' }

/** `5-in-1min`, with the limit of this request. */
function identifierOf(request: Request, { requestPropertyName }: Options, windowMs: number): string {
  const { limit } = (request as unknown as Record<string, { limit: number }>)[requestPropertyName]
  if (named.limit !== limit || named.windowMs !== windowMs) {
    named = { limit, windowMs, name: `${limit}-in-${windowName(windowMs)}` }
  }
  return named.name
}

function windowName(windowMs: number): string {
  const [minutes, hours, days] = [windowMs / 60_000, windowMs / 3_600_000, windowMs / 86_400_000]
  if (minutes < 1) return `${windowMs / 1000}sec`
  if (hours < 1) return `${minutes}min`
  if (days < 1) return `${hours}hr${hours > 1 ? 's' : ''}`
  return `${days}day${days > 1 ? 's' : ''}`
}

function addressKeyOf(
  request: Request,
  response: Response,
  { ipv6Subnet }: Options,
  validations: Validations,
): SyncOrAsync<string> {
  // Express's own lookup takes as long as counting.
  const ip = request.ip as string
  validations.ip(ip)
  validations.trustProxy(request)
  validations.xForwardedForHeader(request)
  validations.forwardedHeader(request)
  if (typeof ipv6Subnet !== 'function') return ipKeyGenerator(ip, ipv6Subnet)
  if (!isIPv6(ip)) return ipKeyGenerator(ip)
  return after(ipv6Subnet(request, response), subnet => {
    validations.ipv6Subnet(subnet)
    return ipKeyGenerator(ip, subnet)
  })
}

function refuse(request: Request, response: Response, { message, statusCode }: Options): SyncOrAsync<void> {
  response.status(statusCode)
  const body: unknown = typeof message === 'function' ? message(request, response) : message
  return after(body, body => {
    if (!response.writableEnded) response.send(body)
  })
}
