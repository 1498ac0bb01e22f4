import { type Clock, systemClock } from '../../limiter/core/clock.js'
import type { Decision } from '../../limiter/core/decision.js'
import { formatDuration, parseOption } from '../../limiter/core/duration.js'
import { CostError, PolicyError, shown, shownOther } from '../../limiter/core/errors.js'
import { type LimitOptions, type Policy, type PolicyInput, parsePolicy } from '../../limiter/core/limit.js'
import { WaitWatch } from '../../limiter/core/meters.js'
import { checkFunction, checkInteger, checkObject, checkOptions, type OptionNames } from '../../limiter/core/options.js'
import { PolicyMemo } from '../../limiter/core/policy-memo.js'
import { MemoryStore } from '../../limiter/memory/memory-store.js'
import { parseLimiterOptions } from '../../limiter/options.js'
import { optionsOf as limiterOptions, RateLimiter, type RateLimiterOptions } from '../../limiter/rate-limiter.js'
import { DEFAULT_LIMITER } from '../../limiter/store.js'
import { countsHits } from '../../replacing/express-rate-limit/hit-store.js'
import { CLIENT_OPTIONS, type ClientSettings, parseClientOptions } from '../address/client.js'
import type { GivenKey } from '../call-option.js'
import { clash, HEADER_FORMS, type HeaderForm, headersFor, type Report } from '../headers.js'
import { checkIsCalled } from '../misuse.js'
import { NEWCOMERS } from '../newcomers.js'
import { bodyOf } from '../refusal.js'
import type { SyncOrAsync } from '../sync-or-async.js'
import { type BlockOptions, checkBlockOptions } from './auto-block.js'
import { Deferral } from './deferral.js'
import { type HttpLimitOptions, type HttpOptions, type HttpPolicyInput, partKeys } from './options.js'
import type { Settle } from './settling.js'
import { SlowDown } from './slow-down.js'

/** A policy with its limiter and its header fields. */
export interface Rule {
  readonly limiter: RateLimiter
  readonly policy: Policy
  readonly report: Report<Decision>
  /** Reports requests that the limiter delays. */
  readonly waits: WaitWatch | undefined
}

/** The rules of one middleware: one for each policy used so far, all on one store. */
export class Rules {
  /** Includes the store that all rules share. */
  readonly options: Omit<RateLimiterOptions, 'policy'>
  readonly #forms: readonly HeaderForm[]
  /** Counts are in the store, so a policy that returns after it was dropped here finds them again. */
  readonly #known = new PolicyMemo(policy => this.#make(policy))
  readonly #ofPolicies = new WeakMap<Policy, Rule>()

  /** Checks the options even before a policy is known: `PolicyError`. */
  constructor(options: Omit<RateLimiterOptions, 'policy'>, forms: readonly HeaderForm[]) {
    parseLimiterOptions({ ...options, policy: '1/1s' })
    this.options = { ...options, store: options.store ?? new MemoryStore() }
    this.#forms = forms
  }

  /** The clock of the limits, as far as the store exposes it. */
  get clock(): Clock {
    const { store } = this.options
    return (countsHits(store) ? undefined : store?.clock) ?? systemClock
  }

  /** The rule for a policy, created on first use. Throws `PolicyError`. */
  rule(policy: PolicyInput): Rule {
    return this.#known.of(policy)
  }

  /** The rule of a limiter that counts on the store of these rules, for its last policy. */
  ruleOf(limiter: RateLimiter): Rule {
    const { policy } = limiter
    let rule = this.#ofPolicies.get(policy)
    if (rule === undefined || rule.limiter !== limiter) {
      const { observer, name = DEFAULT_LIMITER } = limiterOptions(limiter)
      const waits = observer && new WaitWatch(observer, 'limiter', name)
      rule = { limiter, policy, report: headersFor(this.#forms, policy, this.clock), waits }
      this.#ofPolicies.set(policy, rule)
    }
    return rule
  }

  #make(policy: PolicyInput): Rule {
    // The function returned a function, which `RateLimiter` would take for its own policy function.
    if (typeof policy === 'function') parsePolicy(policy)
    return this.ruleOf(new RateLimiter({ ...this.options, policy }))
  }
}

/** Returns a value for one request. */
export type OptionFunction<Request, Response, Value> = (req: Request, res: Response) => SyncOrAsync<Value>

/** The options, checked, with their defaults and without their aliases. */
export interface Settings<Request, Response> {
  readonly policy:
    | HttpPolicyInput<Request, Response>
    | OptionFunction<Request, Response, HttpPolicyInput<Request, Response>>
  readonly key: OptionFunction<Request, Response, GivenKey> | undefined
  readonly client: ClientSettings
  readonly cost: number | OptionFunction<Request, Response, number>
  readonly skip: OptionFunction<Request, Response, boolean> | undefined
  readonly settle: Settle<Request, Response> | undefined
  readonly block: BlockOptions | undefined
  readonly slowDown: SlowDown | undefined
  readonly deferral: Deferral<Request, Response> | undefined
  readonly statusCode: number
  readonly message: unknown
  readonly handler: HttpOptions<Request, Response>['handler']
  readonly headers: readonly HeaderForm[]
  /** An existing limiter; the policy and the options below are then ignored. */
  readonly given: RateLimiter | undefined
  /** The options that `RateLimiter` checks. */
  readonly limiter: Omit<RateLimiterOptions, 'policy'>
}

const OPTIONS: OptionNames<HttpOptions<never, never>> = {
  policy: true,
  limit: true,
  max: true,
  windowMs: true,
  algorithm: true,
  key: true,
  keyGenerator: true,
  cost: true,
  settle: true,
  block: true,
  slowDown: true,
  defer: true,
  store: true,
  name: true,
  skip: true,
  statusCode: true,
  message: true,
  handler: true,
  headers: true,
  deadline: true,
  onStoreFailure: true,
  localShare: true,
  denyCache: true,
  shadow: true,
  observer: true,
  limiter: true,
  ...CLIENT_OPTIONS,
}

/** Checks the options of a middleware. Throws `PolicyError`, or `CostError` for a constant cost. */
export function parseHttpOptions<Request, Response>(
  options: HttpOptions<Request, Response>,
): Settings<Request, Response> {
  checkIsCalled('rateLimit', options)
  checkOptions('rateLimit', options, OPTIONS, '{ policy: "100/1m" }', NEWCOMERS)
  const { statusCode = 429, headers = ['draft-8', 'legacy'], message, handler, skip, cost = 1 } = options
  const { settle, block, slowDown, defer } = options
  checkOptional(settle, 'settle', 'settle: (req, res) => (res.statusCode === 401 ? 1 : 0)')
  if (block !== undefined) checkBlockOptions(block)
  const { store, name, deadline, onStoreFailure, localShare, denyCache, shadow, observer } = options
  const key = oneOf(options, 'key', 'keyGenerator')
  checkOptional(key, 'key', 'key: req => req.user?.id')
  checkOptional(skip, 'skip', 'skip: req => req.user?.isAdmin')
  checkCost(cost)
  checkInteger(statusCode, 'rateLimit: statusCode', 429, 200, 599)
  checkHeaders(headers)
  if (message !== undefined && typeof message !== 'function') bodyOf(message)
  checkOptional(handler, 'handler', 'handler: (req, res, decision) => res.render("busy", { decision })')
  return {
    policy: policyOf(options),
    given: givenLimiter(options),
    key,
    client: parseClientOptions('rateLimit', options),
    cost,
    skip,
    settle,
    block,
    slowDown: slowDown === undefined ? undefined : new SlowDown(slowDown),
    deferral: defer === undefined ? undefined : new Deferral(defer),
    statusCode,
    message,
    handler,
    headers: [...headers],
    limiter: { store, name, deadline, onStoreFailure, localShare, denyCache, shadow, observer },
  }
}

/** The options that an existing limiter determines. */
const SETTLED_BY_LIMITER = [
  'policy',
  'limit',
  'max',
  'windowMs',
  'algorithm',
  'store',
  'name',
  'deadline',
  'onStoreFailure',
  'localShare',
  'denyCache',
  'shadow',
  'observer',
] as const

function givenLimiter<Request, Response>(options: HttpOptions<Request, Response>): RateLimiter | undefined {
  const { limiter } = options
  if (limiter === undefined) return undefined
  if (!(limiter instanceof RateLimiter)) {
    throw new PolicyError(
      `rateLimit: limiter ${shownOther(limiter, 'RateLimiter')}: expected a RateLimiter, like new ` +
        'RateLimiter({ policy: "100/1m" })',
    )
  }
  const other = SETTLED_BY_LIMITER.find(name => options[name] !== undefined)
  if (other === undefined) return limiter
  throw new PolicyError(
    `rateLimit: given both limiter and ${other}: expected ${other} where the limiter is made, like new ` +
      'RateLimiter({ policy: "100/1m" })',
  )
}

function policyOf<Request, Response>(options: HttpOptions<Request, Response>): Settings<Request, Response>['policy'] {
  const { policy, windowMs, algorithm } = options
  const limit = oneOf(options, 'limit', 'max')
  if (policy !== undefined) {
    if (limit === undefined && windowMs === undefined && algorithm === undefined) return policy
    const other = limit !== undefined ? 'limit' : windowMs !== undefined ? 'windowMs' : 'algorithm'
    throw new PolicyError(
      `rateLimit: given both policy and ${other}, expected one of them: policy has all three, like "100/1m ` +
        'fixed-window"',
    )
  }
  const window = windowMs === undefined ? 60_000 : parseOption(windowMs, 'rateLimit: windowMs')
  if (typeof limit !== 'function') return { quota: limit ?? 5, window, algorithm }
  // Counts belong to the name: a name without the quota keeps them when the quota changes.
  const name = `per-${formatDuration(window)}`
  const limitOptions = (quota: number): LimitOptions => ({ quota, window, algorithm, name })
  return (req, res) => {
    const quota = limit(req, res)
    return typeof quota === 'number' ? limitOptions(quota) : Promise.resolve(quota).then(limitOptions)
  }
}

/** The value of an option that has two names. */
function oneOf<Options, Name extends keyof Options & string>(
  options: Options,
  name: Name,
  alias: keyof Options & string,
): Options[Name] {
  const value = options[name]
  const other = options[alias] as unknown as Options[Name]
  if (value !== undefined && other !== undefined) {
    throw new PolicyError(`rateLimit: given both ${name} and ${alias}, which are one option: expected ${name} alone`)
  }
  return value ?? other
}

function checkOptional(value: unknown, name: string, example: string): void {
  if (value !== undefined) checkFunction(value, `rateLimit: ${name}`, `{ ${example} }`)
}

function checkCost(cost: unknown): void {
  if (typeof cost === 'function' || (Number.isSafeInteger(cost) && (cost as number) >= 0)) return
  throw new CostError(`rateLimit: cost ${shown(cost)}: expected an integer ≥ 0, like 1, or a function that gives one`)
}

function checkHeaders(forms: unknown): void {
  if (!Array.isArray(forms) || !forms.every(form => HEADER_FORMS.includes(form))) {
    const given = Array.isArray(forms) ? `[${forms.map(shown).join(', ')}]` : shown(forms)
    throw new PolicyError(
      `rateLimit: headers ${given}: expected a list of ${HEADER_FORMS.join(', ')}, like ["draft-8", "legacy"], ` +
        'or [] for none',
    )
  }
  if (clash(forms)) {
    throw new PolicyError(
      `rateLimit: headers [${forms.map(shown).join(', ')}]: draft-8 gives RateLimit-Policy another form than ` +
        'draft-7 and draft-6 do: expected one of these drafts, like ["draft-8", "legacy"]',
    )
  }
}

type Name = keyof HttpOptions<never, never>

/**
 * Options that replace others: a route that sets the first inherits none of the second from the options for all routes.
 */
const IN_PLACE_OF: ReadonlyArray<readonly [own: Name, others: readonly Name[]]> = [
  ['policy', ['limit', 'max', 'windowMs', 'algorithm', 'limiter']],
  ['limit', ['policy', 'max', 'limiter']],
  ['max', ['policy', 'limit', 'limiter']],
  ['windowMs', ['policy', 'limiter']],
  ['algorithm', ['policy', 'limiter']],
  ['key', ['keyGenerator']],
  ['keyGenerator', ['key']],
  ['limiter', SETTLED_BY_LIMITER],
]

/** The options that together are the limits. */
const LIMITS: readonly Name[] = ['policy', 'limit', 'max', 'windowMs', 'algorithm']
/** Options about the response alone: of combined options, one may set them for all. */
const WORDING: readonly Name[] = ['statusCode', 'message', 'handler', 'headers']

/**
 * The options of a route. Options that it does not set come from the options for all routes, except the name: the route
 * counts separately, as `route` (like 'POST /login'), unless its own options set `name`, or the limiter was made
 * elsewhere.
 */
export function routeOptions<Request, Response>(
  all: HttpOptions<Request, Response>,
  own: HttpOptions<Request, Response>,
  route: string,
): HttpOptions<Request, Response> {
  if (typeof own !== 'object' || own === null) {
    throw new PolicyError(
      `rateLimit: options ${shown(own)} of ${route}: expected an object, like { policy: "5/1m" }, or false for ` +
        'no limit',
    )
  }
  const options = { ...all, name: route }
  for (const [name, others] of IN_PLACE_OF) {
    if (own[name] !== undefined) for (const other of others) delete options[other]
  }
  if (options.limiter !== undefined) delete (options as HttpOptions<Request, Response>).name
  return { ...options, ...own }
}

/**
 * Checks a route's own options, before the options for all routes are known: `PolicyError`, or `CostError` for a
 * constant cost.
 */
export function checkRouteOptions<Request, Response>(own: HttpOptions<Request, Response>): void {
  checkObject('rateLimit', own, '{ policy: "5/1m" }')
  // `addressHeader` is only valid beside `proxies`, which may come from the options for all routes.
  const { policy, limiter, given } = parseHttpOptions({ proxies: 1, ...own })
  if (given !== undefined) return
  parseLimiterOptions({ ...limiter, policy: typeof policy === 'function' ? '1/1s' : partKeys(policy).policy })
}

/**
 * The options of a route for which several were given, like two decorators: their limits are one policy, so that a
 * request is charged to all of them or to none. `owner` begins the message of a `PolicyError`, which is thrown if the
 * other options cannot be those of one policy.
 */
export function combinedOptions<Request, Response>(
  all: ReadonlyArray<HttpOptions<Request, Response>>,
  owner: string,
): HttpOptions<Request, Response> {
  const limits = all.flatMap(own => limitsOf(own, owner))
  const combined: Record<string, unknown> = limits.length > 0 ? { policy: limits } : {}
  for (const name of new Set(all.flatMap(own => Object.keys(own) as Name[]))) {
    if (LIMITS.includes(name)) continue
    const values = new Set(all.map(own => own[name]))
    if (WORDING.includes(name)) values.delete(undefined)
    if (values.size > 1) {
      throw new PolicyError(
        `${owner}: ${name} is not the same in all of them, and they are one policy, which counts a request for ` +
          'all its limits or for none: expected one with all limits, like { policy: ["5/15m", "100/1h"], ' +
          `${name}: … }`,
      )
    }
    combined[name] = [...values][0]
  }
  return combined
}

/** The limits that options name themselves. */
function limitsOf<Request, Response>(
  own: HttpOptions<Request, Response>,
  owner: string,
): ReadonlyArray<string | HttpLimitOptions<Request, Response>> {
  if (LIMITS.every(name => own[name] === undefined)) return []
  const { policy } = parseHttpOptions({ proxies: 1, ...own })
  if (typeof policy !== 'function') return [policy].flat() as Array<string | HttpLimitOptions<Request, Response>>
  throw new PolicyError(
    `${owner}: one of them has a function for its limit: expected one function that returns all limits, like { ` +
      'policy: req => ["5/15m", "100/1h"] }',
  )
}
