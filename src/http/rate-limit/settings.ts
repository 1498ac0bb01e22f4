import { CostError, PolicyError, shown } from '../../limiter/core/errors.js'
import { checkFunction, checkInteger } from '../../limiter/core/options.js'
import { LIMITER_OPTIONS } from '../../limiter/options.js'
import type { RateLimiter, RateLimiterOptions } from '../../limiter/rate-limiter.js'
import { type ClientSettings, parseClientOptions } from '../address/client.js'
import type { GivenKey, OptionFunction } from '../call-option.js'
import { givenLimiter } from '../given-limiter.js'
import { clash, HEADER_FORMS, type HeaderForm } from '../headers.js'
import { bodyOf } from '../refusal.js'
import { type BlockSettings, parseBlock } from './auto-block.js'
import { Deferral } from './deferral.js'
import type { HttpOptions, HttpPolicyInput } from './options.js'
import type { Settle } from './settling.js'
import { SlowDown } from './slow-down.js'
import { type PlainOptions, plainOptions } from './spellings.js'

/** The options, checked, with their defaults. */
export interface Settings<Args extends readonly unknown[]> {
  readonly policy: HttpPolicyInput<Args> | OptionFunction<Args, HttpPolicyInput<Args>>
  readonly key: OptionFunction<Args, GivenKey> | undefined
  readonly client: ClientSettings
  readonly cost: number | OptionFunction<Args, number>
  readonly skip: OptionFunction<Args, boolean> | undefined
  readonly settle: Settle<Args> | undefined
  readonly block: BlockSettings | undefined
  readonly slowDown: SlowDown | undefined
  readonly defer: Deferral<Args> | undefined
  readonly statusCode: number
  readonly message: unknown
  readonly handler: HttpOptions<Args>['handler']
  readonly headers: readonly HeaderForm[]
  /** An existing limiter; the policy and the options below are then ignored. */
  readonly given: RateLimiter | undefined
  /** The options of limiters that are made for the policy. `RateLimiter` checks them. */
  readonly limiter: Omit<RateLimiterOptions, 'policy'>
}

/** The limit without options: five requests a minute. */
const DEFAULT_POLICY = '5/1m'

/** Checks the options of a middleware. Throws `PolicyError`, or `CostError` for a constant cost. */
export function parseHttpOptions<Args extends readonly unknown[]>(options: HttpOptions<Args>): Settings<Args> {
  return parsePlainOptions(plainOptions(options))
}

/** The same for options whose names are ours. */
export function parsePlainOptions<Args extends readonly unknown[]>(options: PlainOptions<Args>): Settings<Args> {
  const { policy = DEFAULT_POLICY, key, skip, cost = 1, settle, block, slowDown, defer } = options
  const { statusCode = 429, headers = ['draft-8', 'legacy'], message, handler } = options
  const { store, name, deadline, onStoreFailure, localShare, denyCache, shadow, observer } = options
  checkOptional(settle, 'settle', 'settle: (req, res) => (res.statusCode === 401 ? 1 : 0)')
  checkOptional(key, 'key', 'key: req => req.user?.id')
  checkOptional(skip, 'skip', 'skip: req => req.user?.isAdmin')
  checkCost(cost)
  checkInteger(statusCode, 'rateLimit: statusCode', 429, 200, 599)
  checkHeaders(headers)
  if (message !== undefined && typeof message !== 'function') bodyOf(message)
  checkOptional(handler, 'handler', 'handler: (req, res, decision) => res.render("busy", { decision })')
  return {
    policy,
    given: givenLimiter('rateLimit', options, SETTLED_BY_LIMITER),
    key,
    client: parseClientOptions('rateLimit', options),
    cost,
    skip,
    settle,
    block: block === undefined ? undefined : parseBlock(block),
    slowDown: slowDown === undefined ? undefined : new SlowDown(slowDown),
    defer: defer === undefined ? undefined : new Deferral(defer),
    statusCode,
    message,
    handler,
    headers: [...headers],
    limiter: { store, name, deadline, onStoreFailure, localShare, denyCache, shadow, observer },
  }
}

/** The options that an existing limiter determines. */
export const SETTLED_BY_LIMITER = Object.keys(LIMITER_OPTIONS) as ReadonlyArray<keyof RateLimiterOptions>

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
