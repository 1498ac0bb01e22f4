import { isIP } from 'node:net'
import type { Request } from 'express'
import { LONGEST_TIMER_MS } from '../../limiter/core/clock.js'
import type { CheckName, EnabledValidations, Logger, Options, Store, ValueDeterminingMiddleware } from './options.js'

/**
 * A probable mistake in the use of the limiter. Logged, never thrown during a request. `code` and `help` as in
 * express-rate-limit.
 */
class ValidationError extends Error {
  readonly help: string

  constructor(
    readonly code: string,
    message: string,
  ) {
    const help = `https://express-rate-limit.github.io/${code}/`
    super(`${message} See ${help} for more information.`)
    this.name = new.target.name
    this.help = help
  }
}

/** An option whose meaning has changed since older versions. */
class ChangeWarning extends ValidationError {}

const OPTIONS: Record<keyof Options, true> = {
  windowMs: true,
  limit: true,
  message: true,
  statusCode: true,
  legacyHeaders: true,
  standardHeaders: true,
  identifier: true,
  retryAfter: true,
  requestPropertyName: true,
  skipFailedRequests: true,
  skipSuccessfulRequests: true,
  keyGenerator: true,
  ipv6Subnet: true,
  handler: true,
  skip: true,
  requestWasSuccessful: true,
  store: true,
  validate: true,
  headers: true,
  max: true,
  passOnStoreError: true,
  logger: true,
  algorithm: true,
  policy: true,
}
/** An option with its own check, and those of express-slow-down, which passes its options on. */
const TOLERATED = ['draft_polli_ratelimit_headers', 'delayAfter', 'delayMs', 'maxDelayMs']
const DRAFTS = ['draft-6', 'draft-7', 'draft-8']

const usedStores = new WeakSet<object>()
/** Keys that have counted a request, per store (or per class of store, if its instances may share counts). */
const countedKeys = new WeakMap<Request, Map<unknown, Set<string>>>()

/** The checks of a limiter and its input, under the names and codes of express-rate-limit 8. Each throws. */
const checks = {
  ip(ip: string | undefined): void {
    if (ip === undefined) {
      throw new ValidationError(
        'ERR_ERL_UNDEFINED_IP_ADDRESS',
        "An undefined 'request.ip' was detected. This might indicate a misconfiguration or the connection " +
          'being destroyed prematurely.',
      )
    }
    if (isIP(ip)) return
    throw new ValidationError(
      'ERR_ERL_INVALID_IP_ADDRESS',
      `An invalid 'request.ip' (${ip}) was detected. Consider passing a custom 'keyGenerator' function to the ` +
        'rate limiter.',
    )
  },

  trustProxy(request: Request): void {
    if (request.app.get('trust proxy') !== true) return
    throw new ValidationError(
      'ERR_ERL_PERMISSIVE_TRUST_PROXY',
      "The Express 'trust proxy' setting is true, which allows anyone to trivially bypass IP-based rate limiting.",
    )
  },

  xForwardedForHeader(request: Request): void {
    if (!request.headers['x-forwarded-for'] || request.app.get('trust proxy') !== false) return
    throw new ValidationError(
      'ERR_ERL_UNEXPECTED_X_FORWARDED_FOR',
      "The 'X-Forwarded-For' header is set but the Express 'trust proxy' setting is false (default). This " +
        'could indicate a misconfiguration which would prevent the rate limiter from accurately identifying ' +
        'users.',
    )
  },

  forwardedHeader(request: Request): void {
    if (!request.headers.forwarded || request.ip !== request.socket?.remoteAddress) return
    throw new ValidationError(
      'ERR_ERL_FORWARDED_HEADER',
      "The 'Forwarded' header (standardized X-Forwarded-For) is set but currently being ignored. Add a custom " +
        'keyGenerator to use a value from this header.',
    )
  },

  positiveHits(hits: unknown): void {
    if (typeof hits === 'number' && hits >= 1 && hits === Math.round(hits)) return
    throw new ValidationError(
      'ERR_ERL_INVALID_HITS',
      `The totalHits value returned from the store must be a positive integer, got ${hits}`,
    )
  },

  unsharedStore(store: object): void {
    if (!usedStores.has(store)) {
      usedStores.add(store)
      return
    }
    const prefix = (store as Partial<Store>).localKeys ? '' : ' (with a unique prefix)'
    throw new ValidationError(
      'ERR_ERL_STORE_REUSE',
      'A Store instance must not be shared across multiple rate limiters. Create a new instance of ' +
        `${store.constructor.name}${prefix} for each limiter instead.`,
    )
  },

  singleCount(request: Request, store: object, key: string): void {
    const { localKeys, prefix = '' } = store as Partial<Store>
    const byStore = countedKeys.get(request) ?? new Map<unknown, Set<string>>()
    countedKeys.set(request, byStore)
    const room = localKeys ? store : store.constructor.name
    const keys = byStore.get(room) ?? new Set<string>()
    byStore.set(room, keys)
    const counted = `${prefix}${key}`
    if (keys.has(counted)) {
      throw new ValidationError(
        'ERR_ERL_DOUBLE_COUNT',
        `The hit count for ${key} was incremented more than once for a single request.`,
      )
    }
    keys.add(counted)
  },

  limit(limit: number): void {
    if (limit !== 0) return
    throw new ChangeWarning(
      'WRN_ERL_MAX_ZERO',
      'Setting limit or max to 0 disables rate limiting in express-rate-limit v6 and older, but will cause all ' +
        'requests to be blocked in v7',
    )
  },

  draftPolliHeaders(option?: unknown): void {
    if (!option) return
    throw new ChangeWarning(
      'WRN_ERL_DEPRECATED_DRAFT_POLLI_HEADERS',
      'The draft_polli_ratelimit_headers configuration option is deprecated and has been removed in ' +
        "express-rate-limit v7, please set standardHeaders: 'draft-6' instead.",
    )
  },

  onLimitReached(option?: unknown): void {
    if (!option) return
    throw new ChangeWarning(
      'WRN_ERL_DEPRECATED_ON_LIMIT_REACHED',
      'The onLimitReached configuration option is deprecated and has been removed in express-rate-limit v7.',
    )
  },

  headersDraftVersion(version?: unknown): void {
    if (typeof version === 'string' && DRAFTS.includes(version)) return
    throw new ValidationError(
      'ERR_ERL_HEADERS_UNSUPPORTED_DRAFT_VERSION',
      'standardHeaders: only the following versions of the IETF draft specification are supported: ' +
        `${DRAFTS.join(', ')}.`,
    )
  },

  headersResetTime(resetTime?: Date): void {
    if (resetTime) return
    throw new ValidationError(
      'ERR_ERL_HEADERS_NO_RESET',
      "standardHeaders:  'draft-7' requires a 'resetTime', but the store did not provide one. The 'windowMs' " +
        'value will be used instead, which may cause clients to wait longer than necessary.',
    )
  },

  knownOptions(options?: object): void {
    for (const name of Object.keys(options ?? {})) {
      if (Object.hasOwn(OPTIONS, name) || TOLERATED.includes(name)) continue
      throw new ValidationError('ERR_ERL_UNKNOWN_OPTION', `Unexpected configuration option: ${name}`)
    }
  },

  /** Checks `validate` itself. */
  validationsConfig(enabled: Readonly<Record<string, boolean>>): void {
    const known = [...Object.keys(checks), 'default']
    for (const name of Object.keys(enabled)) {
      if (known.includes(name)) continue
      throw new ValidationError(
        'ERR_ERL_UNKNOWN_VALIDATION',
        `options.validate.${name} is not recognized. Supported validate options are: ${known.join(', ')}.`,
      )
    }
  },

  /** A limiter created per request always starts from nothing. */
  creationStack(store: object): void {
    const stack = new Error('where was this limiter created?').stack ?? ''
    // The names of the functions in Express 4 and 5 that call handlers.
    if (!stack.includes('Layer.handle [as handle_request]') && !stack.includes('Layer.handleRequest')) return
    const usually = (store as Partial<Store>).localKeys ? '' : ' *usually*'
    throw new ValidationError(
      'ERR_ERL_CREATED_IN_REQUEST_HANDLER',
      `A rate limiter should${usually} be created at app initialization, not when responding to a request.`,
    )
  },

  ipv6Subnet(subnet?: unknown): void {
    if (subnet === false) return
    if (Number.isInteger(subnet) && (subnet as number) >= 32 && (subnet as number) <= 64) return
    throw new ValidationError(
      'ERR_ERL_IPV6_SUBNET',
      `Unexpected ipv6Subnet value: ${subnet}. Expected an integer between 32 and 64 (usually 48-64).`,
    )
  },

  ipv6SubnetOrKeyGenerator({ ipv6Subnet, keyGenerator }: Partial<Options>): void {
    if (ipv6Subnet === undefined || !keyGenerator) return
    throw new ValidationError(
      'ERR_ERL_IPV6SUBNET_OR_KEYGENERATOR',
      "Incompatible options: the 'ipv6Subnet' option is ignored when a custom 'keyGenerator' function is also set.",
    )
  },

  keyGeneratorIpFallback(keyGenerator?: ValueDeterminingMiddleware<string>): void {
    const source = keyGenerator?.toString() ?? ''
    const usesAddress = source.includes('req.ip') || source.includes('request.ip')
    if (!usesAddress || source.includes('ipKeyGenerator')) return
    throw new ValidationError(
      'ERR_ERL_KEY_GEN_IPV6',
      'Custom keyGenerator appears to use request IP without calling the ipKeyGenerator helper function for ' +
        'IPv6 addresses. This could allow IPv6 users to bypass limits.',
    )
  },

  /** Only for limiters with the default store. */
  windowMs(windowMs: unknown): void {
    if (typeof windowMs === 'number' && windowMs >= 1 && windowMs <= LONGEST_TIMER_MS) return
    const type = typeof windowMs === 'number' ? '' : ` (${typeof windowMs})`
    throw new ValidationError(
      'ERR_ERL_WINDOW_MS',
      `Invalid windowMs value: ${windowMs}${type}, must be a number between 1 and ${LONGEST_TIMER_MS} when ` +
        'using the default MemoryStore',
    )
  },
} satisfies Record<CheckName, (...args: never[]) => void>

type Checks = typeof checks

/** The checks of one limiter: each runs once, at the first opportunity, and logs what it finds. */
export type Validations = Checks & {
  /** By the name of a check: whether it still has to run. `default` applies to those that are not named. */
  enabled: { [name: string]: boolean }
  /** Disables all checks that have not run yet. */
  disable(): void
}

export function validationsOf(validate: boolean | EnabledValidations, logger: Logger): Validations {
  const enabled: Record<string, boolean> =
    typeof validate === 'boolean' ? { default: validate } : { default: true, ...validate }
  const disable = () => {
    for (const name of Object.keys(enabled)) enabled[name] = false
  }
  const validations = { ...checks, enabled, disable }
  for (const name of Object.keys(checks) as CheckName[]) {
    const check = checks[name] as (...args: unknown[]) => void
    validations[name] = (...args: unknown[]) => {
      // Every request comes here: a check that has run, or is disabled, must cost nothing.
      validations[name] = nothing
      if (!(enabled[name] ?? enabled.default)) return
      enabled[name] = false
      try {
        check(...args)
      } catch (error) {
        if (error instanceof ChangeWarning) logger.warn(error)
        else logger.error(error)
      }
    }
  }
  return validations
}

function nothing(): void {}
