import { isIP } from 'node:net'
import type { Request } from 'express'
import { checkOptions, type ForeignNames } from '../../limiter/core/options.js'

/** Logs a finding, or an error. */
export type LoggerFn = (error: unknown, message?: string) => void

/** The logger for findings and errors. */
export interface Logger {
  /** Logs errors: of options, of requests, of the store. */
  error: LoggerFn
  /** Logs warnings about changed options. */
  warn: LoggerFn
}

/** A probable mistake: a code of express-rate-limit, and a text. */
type Finding = readonly [code: string, text: string]

const found = (...finding: Finding) => finding

/** What is looked at of a store. */
interface Shared {
  readonly localKeys?: boolean
  readonly prefix?: string
}

const usedStores = new WeakSet<object>()
/** What was counted of a request: its keys, each with the store, or with the class of stores that may share counts. */
const countedKeys = new WeakMap<Request, Array<readonly [place: unknown, key: string]>>()

/** Options of older versions. */
const FORMER: ForeignNames = [
  ['handler', 'handler is called for each refusal; req.rateLimit.used === limit + 1 for the first', 'onLimitReached'],
  ['standardHeaders', "expected standardHeaders: 'draft-6'", 'draft_polli_ratelimit_headers'],
]

/**
 * What no type checker sees, by its name in express-rate-limit 8; and misspelt options, because many services are
 * written in JavaScript. Nothing is found: false or undefined.
 */
const checks = {
  ip(ip: string | undefined) {
    if (ip !== undefined) return !isIP(ip) && found('ERR_ERL_INVALID_IP_ADDRESS', `'request.ip' is no address: ${ip}.`)
    return found('ERR_ERL_UNDEFINED_IP_ADDRESS', "'request.ip' is undefined: misconfigured, or the connection is gone.")
  },
  trustProxy: (request: Request) =>
    request.app.get('trust proxy') === true &&
    found('ERR_ERL_PERMISSIVE_TRUST_PROXY', "'trust proxy' is true: any client can name another address as its own."),
  xForwardedForHeader(request: Request) {
    if (!request.headers['x-forwarded-for'] || request.app.get('trust proxy') !== false) return
    const text = "A request has X-Forwarded-For, and 'trust proxy' is false: all clients of a proxy are counted as one."
    return found('ERR_ERL_UNEXPECTED_X_FORWARDED_FOR', text)
  },
  forwardedHeader(request: Request) {
    if (!request.headers.forwarded || request.ip !== request.socket?.remoteAddress) return
    return found(
      'ERR_ERL_FORWARDED_HEADER',
      "A request has Forwarded, which only a 'keyGenerator' of your own can use.",
    )
  },
  positiveHits: (hits: unknown) =>
    !(Number.isInteger(hits) && (hits as number) >= 1) &&
    found('ERR_ERL_INVALID_HITS', `The store counted ${hits} hits, expected a positive integer.`),
  unsharedStore(store: object) {
    const isUsed = usedStores.has(store)
    usedStores.add(store)
    const prefix = (store as Shared).localKeys ? '' : ', with a unique prefix'
    return (
      isUsed && found('ERR_ERL_STORE_REUSE', `Two limiters share a ${store.constructor.name}: give each one${prefix}.`)
    )
  },
  singleCount(request: Request, store: object, key: string) {
    const { localKeys, prefix = '' } = store as Shared
    const place = localKeys ? store : store.constructor.name
    const counted = countedKeys.get(request) ?? []
    const isDouble = counted.some(one => one[0] === place && one[1] === prefix + key)
    countedKeys.set(request, [...counted, [place, prefix + key]])
    return isDouble && found('ERR_ERL_DOUBLE_COUNT', `A request was counted twice for the key ${key}.`)
  },
  limit: (limit: number) =>
    limit === 0 && found('WRN_ERL_MAX_ZERO', 'A limit of 0 refuses all requests, since version 7.'),
  headersResetTime: (resetTime: Date | undefined) =>
    !resetTime &&
    found('ERR_ERL_HEADERS_NO_RESET', "The store gives no 'resetTime': clients are told to wait a whole window."),
  knownOptions(given: object, known: readonly string[]) {
    try {
      checkOptions('rateLimit', given, Object.fromEntries(known.map(name => [name, true])), '{ limit: 100 }', FORMER)
      return
    } catch (error) {
      return found('ERR_ERL_UNKNOWN_OPTION', `${(error as Error).message}.`)
    }
  },
  /** A limiter created per request always starts from nothing. */
  creationStack(store: object) {
    const stack = new Error('where was this limiter created?').stack ?? ''
    // The names of the functions in Express 4 and 5 that call handlers.
    if (!stack.includes('Layer.handle [as handle_request]') && !stack.includes('Layer.handleRequest')) return
    const usually = (store as Shared).localKeys ? '' : ' *usually*'
    return found(
      'ERR_ERL_CREATED_IN_REQUEST_HANDLER',
      `Limiters are${usually} made when the app starts, not in a handler.`,
    )
  },
  ipv6Subnet: (subnet: unknown) =>
    subnet !== false &&
    !(Number.isInteger(subnet) && Number(subnet) >= 32 && Number(subnet) <= 64) &&
    found('ERR_ERL_IPV6_SUBNET', `'ipv6Subnet' is ${subnet}, expected an integer from 32 to 64, like 56.`),
  ipv6SubnetOrKeyGenerator: ({ ipv6Subnet, keyGenerator }: { ipv6Subnet?: unknown; keyGenerator?: unknown }) =>
    ipv6Subnet !== undefined &&
    Boolean(keyGenerator) &&
    found('ERR_ERL_IPV6SUBNET_OR_KEYGENERATOR', "With a 'keyGenerator' of your own, 'ipv6Subnet' is ignored."),
  keyGeneratorIpFallback(keyGenerator: unknown) {
    const source = String(keyGenerator)
    if (!/req(uest)?\.ip/.test(source) || source.includes('ipKeyGenerator')) return
    return found(
      'ERR_ERL_KEY_GEN_IPV6',
      "'keyGenerator' does not call ipKeyGenerator: an IPv6 user has countless keys.",
    )
  },
  /** Only for limiters with the default store, which has no longest window. */
  windowMs: (windowMs: unknown) =>
    !(Number.isFinite(windowMs) && Number(windowMs) >= 1) &&
    found('ERR_ERL_WINDOW_MS', `'windowMs' is ${windowMs} (${typeof windowMs}), expected a number of ms, at least 1.`),
} satisfies Record<string, (...args: never[]) => Finding | false | undefined>

type Name = keyof typeof checks

/** Names that `validate` may have as well, because express-rate-limit has them: TypeScript sees what they look for. */
type SeenByTypes = 'draftPolliHeaders' | 'onLimitReached' | 'headersDraftVersion' | 'validationsConfig'

/** The enabled validations; `default` applies to those that are not named. */
export type EnabledValidations = { [name in Name | SeenByTypes | 'default']?: boolean }

/** The validations of one limiter: each runs once, at the first opportunity, and logs what it finds. */
export type Validations = { [name in Name]: (...args: Parameters<(typeof checks)[name]>) => void } & {
  /** By name: whether it still has to run. `default` applies to those that are not named. */
  enabled: { [name: string]: boolean }
  /** Disables all that have not run yet. */
  disable(): void
}

export function validationsOf(validate: boolean | EnabledValidations, logger: Logger): Validations {
  const enabled: Record<string, boolean> =
    typeof validate === 'boolean' ? { default: validate } : { default: true, ...validate }
  const disable = () => {
    for (const name of Object.keys(enabled)) enabled[name] = false
  }
  const validations = { enabled, disable } as Validations
  for (const name of Object.keys(checks) as Name[]) {
    validations[name] = (...args: unknown[]) => {
      // Every request comes here: a validation that has run, or is disabled, must cost nothing.
      validations[name] = nothing
      if (!(enabled[name] ?? enabled.default)) return
      enabled[name] = false
      try {
        const finding = (checks[name] as (...args: unknown[]) => Finding | false | undefined)(...args)
        if (finding) logger[finding[0].startsWith('WRN') ? 'warn' : 'error'](errorOf(...finding))
      } catch (error) {
        logger.error(error)
      }
    }
  }
  return validations
}

function nothing(): void {}

/** With `code` and `help` as in express-rate-limit. */
function errorOf(code: string, text: string): Error {
  const help = `https://express-rate-limit.github.io/${code}/`
  return Object.assign(new Error(`${text} See ${help}`), { name: 'ValidationError', code, help })
}
