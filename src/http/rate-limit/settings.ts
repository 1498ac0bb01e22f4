import { formatDuration, parseOption } from '../../core/duration.js'
import { CostError, PolicyError, shown } from '../../core/errors.js'
import type { LimitOptions } from '../../core/limit.js'
import { checkOptions, type OptionNames } from '../../core/option-names.js'
import { RateLimiter, type RateLimiterOptions } from '../../limiter/rate-limiter.js'
import { CLIENT_OPTIONS, type ClientSettings, parseClientOptions } from '../address/client-options.js'
import { checkDeferOptions, type DeferOptions } from '../deferral/deferral.js'
import type { GivenKey } from '../given-key.js'
import { clash, HEADER_FORMS, type HeaderForm } from '../headers.js'
import { checkIsCalled } from '../mounting.js'
import { bodyOf } from '../refusal.js'
import type { SyncOrAsync } from '../sync-or-async.js'
import { type BlockOptions, checkBlockOptions } from './auto-block.js'
import type { HttpPolicyInput } from './limit-keys.js'
import type { HttpOptions } from './options.js'
import type { Settle } from './settling.js'
import { SlowDown } from './slow-down.js'

/** Returns a value for one request. */
export type Ask<Request, Response, Value> = (req: Request, res: Response) => SyncOrAsync<Value>

/** The options, checked, with their defaults and without their aliases. */
export interface Settings<Request, Response> {
  readonly policy: HttpPolicyInput<Request, Response> | Ask<Request, Response, HttpPolicyInput<Request, Response>>
  readonly key: Ask<Request, Response, GivenKey> | undefined
  readonly client: ClientSettings
  readonly cost: number | Ask<Request, Response, number>
  readonly skip: Ask<Request, Response, boolean> | undefined
  readonly settle: Settle<Request, Response> | undefined
  readonly block: BlockOptions | undefined
  readonly slowDown: SlowDown | undefined
  readonly defer: DeferOptions<Request, Response> | undefined
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
  checkOptions('rateLimit', options, OPTIONS, '{ policy: "100/1m" }')
  const { statusCode = 429, headers = ['draft-8', 'legacy'], message, handler, skip, cost = 1 } = options
  const { settle, block, slowDown, defer } = options
  checkFunction(settle, 'settle', 'settle: (req, res) => (res.statusCode === 401 ? 1 : 0)')
  if (block !== undefined) checkBlockOptions(block)
  if (defer !== undefined) checkDeferOptions(defer)
  const { store, name, deadline, onStoreFailure, localShare, denyCache, shadow, observer } = options
  const key = oneOf(options, 'key', 'keyGenerator')
  checkFunction(key, 'key', 'key: req => req.user?.id')
  checkFunction(skip, 'skip', 'skip: req => req.user?.isAdmin')
  checkCost(cost)
  if (!(Number.isInteger(statusCode) && statusCode >= 200 && statusCode <= 599)) {
    throw new PolicyError(`rateLimit: statusCode ${shown(statusCode)}: expected an integer from 200 to 599, like 429`)
  }
  checkHeaders(headers)
  if (message !== undefined && typeof message !== 'function') bodyOf(message)
  checkFunction(handler, 'handler', 'handler: (req, res, decision) => res.render("busy", { decision })')
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
    defer,
    statusCode,
    message,
    handler,
    headers: [...headers],
    limiter: { store, name, deadline, onStoreFailure, localShare, denyCache, shadow, observer },
  }
}

/** The options that an existing limiter determines. */
export const SETTLED_BY_LIMITER = [
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
      `rateLimit: limiter ${shown(limiter)}: expected a RateLimiter, like new RateLimiter({ policy: "100/1m" })`,
    )
  }
  const other = SETTLED_BY_LIMITER.find(name => options[name] !== undefined)
  if (other === undefined) return limiter
  throw new PolicyError(
    `rateLimit: given both limiter and ${other}: expected ${other} where the limiter is made, like new RateLimiter({ policy: "100/1m" })`,
  )
}

function policyOf<Request, Response>(options: HttpOptions<Request, Response>): Settings<Request, Response>['policy'] {
  const { policy, windowMs, algorithm } = options
  const limit = oneOf(options, 'limit', 'max')
  if (policy !== undefined) {
    if (limit === undefined && windowMs === undefined && algorithm === undefined) return policy
    const other = limit !== undefined ? 'limit' : windowMs !== undefined ? 'windowMs' : 'algorithm'
    throw new PolicyError(
      `rateLimit: given both policy and ${other}, expected one of them: policy has all three, like "100/1m fixed-window"`,
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

function checkFunction(value: unknown, name: string, example: string): void {
  if (value === undefined || typeof value === 'function') return
  throw new PolicyError(`rateLimit: ${name} ${shown(value)}: expected a function, like { ${example} }`)
}

function checkCost(cost: unknown): void {
  if (typeof cost === 'function' || (Number.isSafeInteger(cost) && (cost as number) >= 0)) return
  throw new CostError(`rateLimit: cost ${shown(cost)}: expected an integer ≥ 0, like 1, or a function that gives one`)
}

function checkHeaders(forms: unknown): void {
  if (!Array.isArray(forms) || !forms.every(form => HEADER_FORMS.includes(form))) {
    const given = Array.isArray(forms) ? `[${forms.map(shown).join(', ')}]` : shown(forms)
    throw new PolicyError(
      `rateLimit: headers ${given}: expected a list of ${HEADER_FORMS.join(', ')}, like ["draft-8", "legacy"], or [] for none`,
    )
  }
  if (clash(forms)) {
    throw new PolicyError(
      `rateLimit: headers [${forms.map(shown).join(', ')}]: draft-8 gives RateLimit-Policy another form than draft-7 and draft-6 do: ` +
        'expected one of these drafts, like ["draft-8", "legacy"]',
    )
  }
}
