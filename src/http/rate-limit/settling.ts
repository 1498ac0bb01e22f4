import type { Decision } from '../../limiter/core/decision.js'
import { costOf, StoreError } from '../../limiter/core/errors.js'
import { notifyDecided } from '../../limiter/core/observer.js'
import { emitWarning } from '../../limiter/core/warnings.js'
import type { LimiterKey } from '../../limiter/key.js'
import { change, optionsOf, type RateLimiter } from '../../limiter/rate-limiter.js'
import { DEFAULT_LIMITER } from '../../limiter/store.js'
import { callOption, type OptionFunction } from '../call-option.js'
import type { Framework } from '../framework.js'
import type { ResponseEnd } from '../response-watch.js'
import { after, isPromise } from '../sync-or-async.js'

/** Returns the real cost of a request after its response has ended. */
export type Settle<Args extends readonly unknown[]> = OptionFunction<[...request: Args, end: ResponseEnd], number>

/** The charge of a request at its admission. */
export interface Admission {
  readonly limiter: RateLimiter
  readonly key: LimiterKey
  readonly decision: Decision
  /** True if it was admitted for nothing and pays at its end only. */
  readonly paysLater: boolean
}

/** How long a handler may take to end the response after its client has gone. */
const WITHIN_MS = 30_000
const WARN_EVERY_MS = 60_000
const WARNED_AT = new WeakMap<RateLimiter, number>()

/**
 * Charges requests their real cost: calls the option `settle` once for each, when its handler has ended the response.
 */
export class Settling<Request, Response, Args extends readonly unknown[]> {
  readonly #settle: Settle<Args>
  readonly #framework: Framework<Request, Response, Args>

  constructor(settle: Settle<Args>, framework: Framework<Request, Response, Args>) {
    this.#settle = settle
    this.#framework = framework
  }

  /** Settles the request at its end. */
  follow(admission: Admission, req: Request, res: Response): void {
    this.#framework.watch(res, req).onEnd({ withinMs: WITHIN_MS }, end => this.#settleNow(admission, req, res, end))
  }

  #settleNow(admission: Admission, req: Request, res: Response, end: ResponseEnd): void {
    const fail = (error: unknown) => {
      warnOfFailure('rateLimit: settle', error)
      // The first charge stands; but a handler that never ends its response is not free.
      if (!end.ended) charge(admission, leastOf(admission.paysLater ? 0 : admission.decision.cost, end))
    }
    try {
      const cost = callOption(this.#settle, [...this.#framework.args(req, res), end])
      const charged = after(cost, cost => charge(admission, leastOf(costOf(cost, 'rateLimit: settle gave'), end)))
      if (isPromise(charged)) charged.then(undefined, fail)
    } catch (error) {
      fail(error)
    }
  }
}

/** The minimum charge if the status may mean nothing: at least 1, or a client could hide what it did by going away. */
function leastOf(cost: number, { ended }: ResponseEnd): number {
  return ended ? cost : Math.max(cost, 1)
}

/** Charges what was admitted its real cost. `user` names the option in warnings. */
export function charge(
  { limiter, key, decision, paysLater }: Admission,
  cost: number,
  user = 'rateLimit: settle',
): void {
  // What is let in although it did not fit (`shadow`) spends nothing, as under any other cost.
  if (paysLater && (cost === 0 || decision.shadow)) return
  const charged = paysLater ? chargeAfter(decision, limiter, key, cost) : limiter.settle(decision, cost)
  charged.catch(error => warnOfLoss(limiter, user, error))
}

/** Spends where the look was answered: in an outage, elsewhere would let in everything. */
function chargeAfter({ source, degraded }: Decision, limiter: RateLimiter, key: LimiterKey, units: number) {
  return change(limiter, key, { verb: 'charge', units, from: degraded ? { source, degraded } : undefined })
}

/** Whether a request that pays at its end would fit now. It is a decision like any other, and the observer is told. */
export async function look(limiter: RateLimiter, key: LimiterKey): Promise<Decision> {
  const decision = await limiter.peek(key)
  const { observer, name = DEFAULT_LIMITER } = optionsOf(limiter)
  notifyDecided(observer, decision, name)
  return decision
}

/** Gives back the charge of a request that no handler will process. */
export async function giveBack({ limiter, decision }: Admission): Promise<void> {
  await limiter.settle(decision, 0).catch(error => warnOfLoss(limiter, 'rateLimit: giving a place back', error))
}

/**
 * Of an outage, which every settlement meets, one warning a minute is enough: the limiter reports the outage itself.
 */
function warnOfLoss(limiter: RateLimiter, what: string, error: unknown): void {
  if (error instanceof StoreError) {
    const nowMs = performance.now()
    if (nowMs - (WARNED_AT.get(limiter) ?? Number.NEGATIVE_INFINITY) < WARN_EVERY_MS) return
    WARNED_AT.set(limiter, nowMs)
  }
  warnOfFailure(what, error)
}

/** The response has ended, so an error can no longer be sent. */
export function warnOfFailure(what: string, error: unknown): void {
  emitWarning('SPILLWAY_SETTLE', `${what} failed: ${(error as Error)?.message ?? error}`)
}
