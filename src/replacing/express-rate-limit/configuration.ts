import { isIPv6 } from 'node:net'
import type { Request, Response } from 'express'
import { after, type SyncOrAsync } from '../../http/sync-or-async.js'
import { promised } from '../../limiter/hit-store.js'
import { DEFAULT_WINDOW_MS } from './hits.js'
import { ipKeyGenerator } from './ip-key.js'
import { MemoryStore } from './memory-store.js'
import type { Logger, Options, RateLimitOptions, Store } from './options.js'
import { type Validations, validationsOf } from './validations.js'

/** The options with their defaults and without their aliases, and their checks. */
export interface Configuration extends Options {
  readonly validations: Validations
  /** The default of `identifier`. */
  readonly ownIdentifier: Options['identifier']
}

export const skipNone: Options['skip'] = () => false

/**
 * Reads options as express-rate-limit does: undefined counts as absent, and errors are logged. Does not change the
 * given object.
 */
export function configurationOf(passed: RateLimitOptions): Configuration {
  const given = Object.fromEntries(
    Object.entries(passed).filter(([, value]) => value !== undefined),
  ) as Partial<Options> & Record<string, unknown>
  const logger = passed.logger ?? consoleLogger
  checkLogger(logger)
  const validations = validationsOf(given.validate ?? true, logger)
  validations.validationsConfig(validations.enabled)
  validations.knownOptions(passed)
  validations.draftPolliHeaders(given.draft_polli_ratelimit_headers)
  validations.onLimitReached(given.onLimitReached)
  if (given.ipv6Subnet !== undefined && typeof given.ipv6Subnet !== 'function') validations.ipv6Subnet(given.ipv6Subnet)
  validations.keyGeneratorIpFallback(given.keyGenerator)
  validations.ipv6SubnetOrKeyGenerator(given)
  const ownIdentifier: Options['identifier'] = request => identifierOf(request, config)
  const config: Configuration = {
    windowMs: DEFAULT_WINDOW_MS,
    limit: passed.max ?? 5,
    message: 'Too many requests, please try again later.',
    statusCode: 429,
    legacyHeaders: passed.headers ?? true,
    identifier: ownIdentifier,
    requestPropertyName: 'rateLimit',
    skipFailedRequests: false,
    skipSuccessfulRequests: false,
    requestWasSuccessful: (_request, response) => response.statusCode < 400,
    skip: skipNone,
    keyGenerator: (request, response) => addressKeyOf(request, response, config),
    ipv6Subnet: 56,
    handler: (request, response) => refuse(request, response, config),
    passOnStoreError: false,
    validate: validations.enabled,
    ...given,
    standardHeaders: given.standardHeaders === true ? 'draft-6' : (given.standardHeaders ?? false),
    store: storeOf(given.store),
    validations,
    ownIdentifier,
    logger,
  }
  return config
}

/** The options as handlers receive them. */
export function optionsOf({ validations, ownIdentifier: _, ...options }: Configuration): Options {
  return { ...options, validate: validations.enabled }
}

const consoleLogger: Logger = {
  warn: (...args) => console.warn(...args.reverse()),
  error: (...args) => console.error(...args.reverse()),
}

function checkLogger(logger: Logger): void {
  if (typeof logger === 'object' && typeof logger.error === 'function' && typeof logger.warn === 'function') return
  throw new TypeError('Provided logger does not implement the Logger interface')
}

/** Throws `TypeError` for an invalid store. */
function storeOf(passed: Options['store'] | null | undefined): Exclude<Options['store'], undefined> {
  const given = passed ?? new MemoryStore()
  if ('consume' in given && typeof given.consume === 'function') return given
  const store = promised(given as Options['store'])
  const { increment, decrement, resetKey, resetAll, init } = store as Partial<Store>
  const wanted = [increment, decrement, resetKey]
  const possible = [resetAll, init].filter(method => method !== undefined)
  if ([...wanted, ...possible].every(method => typeof method === 'function')) return store as Store
  throw new TypeError(
    'An invalid store was passed. Please ensure that the store is a class that implements the `Store` interface.',
  )
}

/** `5-in-1min`, with the limit of this request. */
function identifierOf(request: Request, { requestPropertyName, windowMs }: Configuration): string {
  const { limit } = (request as unknown as Record<string, { limit: number }>)[requestPropertyName]
  return nameOf(limit, windowMs)
}

let named = { limit: Number.NaN, windowMs: 0, name: '' }

/** Usually the same as for the previous request. */
export function nameOf(limit: number, windowMs: number): string {
  if (named.limit !== limit || named.windowMs !== windowMs) {
    named = { limit, windowMs, name: `${limit}-in-${windowName(windowMs)}` }
  }
  return named.name
}

function windowName(windowMs: number): string {
  const seconds = windowMs / 1000
  const minutes = seconds / 60
  const hours = minutes / 60
  const days = hours / 24
  if (seconds < 60) return `${seconds}sec`
  if (minutes < 60) return `${minutes}min`
  if (hours < 24) return `${hours}hr${hours > 1 ? 's' : ''}`
  return `${days}day${days > 1 ? 's' : ''}`
}

function addressKeyOf(request: Request, response: Response, config: Configuration): string | Promise<string> {
  const { validations, ipv6Subnet } = config
  // Express's own lookup takes as long as counting.
  const ip = request.ip as string
  validations.ip(ip)
  validations.trustProxy(request)
  validations.xForwardedForHeader(request)
  validations.forwardedHeader(request)
  if (typeof ipv6Subnet !== 'function') return ipKeyGenerator(ip, ipv6Subnet)
  if (!isIPv6(ip)) return ipKeyGenerator(ip)
  return Promise.resolve(ipv6Subnet(request, response)).then(subnet => {
    validations.ipv6Subnet(subnet)
    return ipKeyGenerator(ip, subnet)
  })
}

function refuse(request: Request, response: Response, { message, statusCode }: Configuration): SyncOrAsync<void> {
  response.status(statusCode)
  const body: unknown = typeof message === 'function' ? message(request, response) : message
  return after(body, body => {
    if (!response.writableEnded) response.send(body)
  })
}
