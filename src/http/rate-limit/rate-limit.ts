import type { Decision } from '../../limiter/core/decision.js'
import { costOf, PolicyError } from '../../limiter/core/errors.js'
import type { Limit, PolicyInput } from '../../limiter/core/limit.js'
import { emitWarning } from '../../limiter/core/warnings.js'
import type { LimiterKey } from '../../limiter/key.js'
import { optionsOf, type RateLimiter } from '../../limiter/rate-limiter.js'
import { Client } from '../address/client.js'
import { callOption, keyText, type OptionFunction } from '../call-option.js'
import { checkFits } from '../fitting-cost.js'
import { type Answer, type Framework, type Gate, GONE, PASS, plainReply, wordedReply } from '../framework.js'
import { Ledger } from '../ledger.js'
import { CreationWatch, KeyWatch } from '../misuse.js'
import { refuse } from '../refusal.js'
import { watchSharing } from '../same-count.js'
import { after, isPromise, type SyncOrAsync } from '../sync-or-async.js'
import { AutoBlock } from './auto-block.js'
import type { Deferral } from './deferral.js'
import { type HttpOptions, type HttpPolicyInput, type KeyOf, partKeys } from './options.js'
import { type Rule, Rules } from './rules.js'
import { parseHttpOptions, type Settings } from './settings.js'
import { type Admission, giveBack, look, Settling } from './settling.js'
import { doneWaiting, mayWait, type SlowDown } from './slow-down.js'

/** The properties that the middleware function carries. */
export interface LimiterAccess {
  /**
   * The limiter of the middleware, to `peek`, `refund` or `reset`. Throws `PolicyError` if the policy is a function.
   */
  readonly limiter: RateLimiter
  /** For a policy that is a function: the limiter for one of its policies. Throws `PolicyError`. */
  limiterFor(policy: PolicyInput): RateLimiter
}

/** A rule, and the separate keys of its limits. */
interface KeyedRule<Args extends readonly unknown[]> extends Rule {
  readonly keys: ReadonlyMap<string, KeyOf<Args>> | undefined
}

/** Decides requests for a middleware and returns what to do. It accesses the framework only through `Framework`. */
export class RateLimitGate<Request, Response, Args extends readonly unknown[]>
  implements Gate<Request, Response>, LimiterAccess
{
  readonly #framework: Framework<Request, Response, Args>
  readonly #settings: Settings<Args>
  readonly #rules: Rules
  /** The rule for all requests; undefined if the policy is a function. */
  readonly #rule: KeyedRule<Args> | undefined
  readonly #autoBlock: AutoBlock | undefined
  readonly #slowDown: SlowDown | undefined
  readonly #client: Client<Request, Response>
  readonly #settling: Settling<Request, Response, Args> | undefined
  #warnedOfDouble = false
  readonly #keys: KeyWatch | undefined
  /** undefined: this middleware was not made for one request. */
  #creation: CreationWatch | undefined

  /** Checks the options: `PolicyError`, or `CostError` for a constant cost. */
  static of<Request, Response, Args extends readonly unknown[]>(
    options: HttpOptions<Args>,
    framework: Framework<Request, Response, Args>,
  ): RateLimitGate<Request, Response, Args> {
    return new RateLimitGate(parseHttpOptions(options), framework)
  }

  /** Throws `PolicyError` for settings that do not fit together. */
  constructor(settings: Settings<Args>, framework: Framework<Request, Response, Args>) {
    this.#framework = framework
    this.#settings = settings
    const { given, policy, limiter } = settings
    const options = given === undefined ? limiter : optionsOf(given)
    this.#rules = new Rules(options, settings.headers)
    if (given !== undefined) this.#rule = { ...this.#rules.ruleOf(given), keys: undefined }
    else if (typeof policy === 'function') this.#rules.check()
    else this.#rule = this.#ruleOf(policy)
    if (settings.key !== undefined || this.#rule?.keys !== undefined) this.#keys = new KeyWatch('rateLimit')
    if (given === undefined && limiter.store === undefined) {
      const limits = this.#rule?.policy.map(({ name, algorithm }) => `${name} ${algorithm}`) ?? []
      this.#creation = new CreationWatch([limiter.name, ...limits].join('; '))
    }
    if (this.#rule !== undefined) {
      checkFits('rateLimit', 'request', settings.cost, this.#rule.limiter, this.#rule.keys)
      if (given === undefined && limiter.store !== undefined && limiter.name === undefined) {
        watchSharing(this.#rule.limiter)
      }
    }
    this.#autoBlock = settings.block && new AutoBlock(settings.block, this.#rules.options.store)
    // In shadow mode requests pass at once.
    if (!options.shadow) this.#slowDown = settings.slowDown
    this.#client = new Client(framework, settings.client)
    this.#settling = settings.settle && new Settling(settings.settle, framework)
  }

  /** The limiter for all requests; undefined if the policy is a function. */
  get only(): RateLimiter | undefined {
    return this.#rule?.limiter
  }

  get limiter(): RateLimiter {
    if (this.#rule) return this.#rule.limiter
    throw new PolicyError(
      'rateLimit: limiter: the policy is a function and each policy has its own: expected limiterFor(policy), ' +
        'like limiterFor("100/1m")',
    )
  }

  limiterFor(policy: PolicyInput): RateLimiter {
    if (this.#settings.given !== undefined) {
      throw new PolicyError(
        'rateLimit: limiterFor: the limiter was given as an option, and has one policy: expected limiter',
      )
    }
    return this.#rules.limiterFor(policy)
  }

  /** Adds `limiter` and `limiterFor` to a middleware function. */
  equip<Middleware extends object>(middleware: Middleware): Middleware & LimiterAccess {
    return Object.defineProperties(middleware, {
      // Whoever copies the properties, like Object.assign, must not meet the error of a policy that is a function.
      limiter: { get: () => this.limiter, enumerable: false },
      limiterFor: { value: (policy: PolicyInput) => this.limiterFor(policy), enumerable: true },
    }) as Middleware & LimiterAccess
  }

  /**
   * Decides one request; synchronously, if the store and all functions of the options are synchronous.
   *
   * Throws or rejects if a function of the options fails, or returns an invalid value; then nothing is spent. The
   * reason is always an object, because frameworks do not treat `undefined` or 'route' as an error.
   */
  answer(req: Request, res: Response): SyncOrAsync<Answer> {
    const met = this.#client.meet(req, res)
    if (typeof met === 'object') return met
    const { skip } = this.#settings
    if (skip === undefined) return this.#limit(req, res, met)
    return this.#asked(this.#call(skip, req, res), req, res, skipped => (skipped ? PASS : this.#limit(req, res, met)))
  }

  #limit(req: Request, res: Response, met: string): SyncOrAsync<Answer> {
    const rule = this.#rule
    if (rule !== undefined) {
      const { keys } = rule
      if (keys === undefined && this.#settings.key === undefined) {
        return this.#charge(rule, this.#client.key(req, met), req, res)
      }
      const key = keys === undefined ? this.#keyOf(req, res, met) : this.#keysOf(rule, keys, undefined, req, res, met)
      return this.#asked(key, req, res, key => this.#charge(rule, key, req, res))
    }
    const { policy } = this.#settings
    return this.#asked(this.#keyOf(req, res, met), req, res, key => {
      if (key === undefined) return this.#unlimited()
      const given = this.#call(policy as OptionFunction<Args, HttpPolicyInput<Args>>, req, res)
      return this.#asked(given, req, res, input => {
        const rule = this.#ruleOf(input)
        if (rule.keys === undefined) return this.#charge(rule, key, req, res)
        const keys = this.#keysOf(rule, rule.keys, key, req, res, met)
        return this.#asked(keys, req, res, keys => this.#charge(rule, keys, req, res))
      })
    })
  }

  #call<Value>(option: OptionFunction<Args, Value>, req: Request, res: Response): SyncOrAsync<Value> {
    return callOption(option, this.#framework.args(req, res))
  }

  /** Continues with what an option says. */
  #asked<Value>(
    value: SyncOrAsync<Value>,
    req: Request,
    res: Response,
    next: (value: Value) => SyncOrAsync<Answer>,
  ): SyncOrAsync<Answer> {
    return this.#client.whileThere(value, req, res, next)
  }

  /** A request without a key. */
  #unlimited(): Answer {
    this.#keys?.missed()
    return PASS
  }

  #ruleOf(input: HttpPolicyInput<Args>): KeyedRule<Args> {
    const { policy, keys } = partKeys(input)
    return { ...this.#rules.rule(policy), keys }
  }

  /** The middleware's own key. */
  #keyOf(req: Request, res: Response, met: string): SyncOrAsync<string | undefined> {
    const { key } = this.#settings
    if (key === undefined) return this.#client.key(req, met)
    return after(this.#call(key, req, res), key => this.#own(key, req, met))
  }

  /** A key that a function of the service gave. */
  #own(given: unknown, req: Request, met: string): string | undefined {
    const key = keyText(given, 'rateLimit')
    if (key !== undefined) this.#client.watchKey(key, req, met)
    return key
  }

  /** A key for each limit, if some have their own; undefined if no limit has one for this request. */
  #keysOf(
    { limiter }: Rule,
    keys: ReadonlyMap<string, KeyOf<Args>>,
    known: string | undefined,
    req: Request,
    res: Response,
    met: string,
  ): SyncOrAsync<LimiterKey | undefined> {
    const names = limiter.policy.map(limit => limit.name)
    let common: SyncOrAsync<string | undefined> = known
    if (known === undefined && names.some(name => !keys.has(name))) common = this.#keyOf(req, res, met)
    const own = names.map(name => {
      const keyOf = keys.get(name)
      return keyOf === undefined ? common : after(this.#call(keyOf, req, res), key => this.#own(key, req, met))
    })
    const combined = (values: ReadonlyArray<string | undefined>) =>
      values.every(value => value === undefined)
        ? undefined
        : Object.fromEntries(values.map((value, i) => [names[i], value]))
    return own.some(isPromise) ? Promise.all(own).then(combined) : combined(own as Array<string | undefined>)
  }

  #charge(rule: Rule, key: LimiterKey | undefined, req: Request, res: Response): SyncOrAsync<Answer> {
    if (key === undefined) return this.#unlimited()
    this.#keys?.found()
    if (this.#creation?.decided() === false) this.#creation = undefined
    const { cost } = this.#settings
    if (typeof cost === 'number') return this.#decide(rule, key, cost, req, res)
    return this.#asked(this.#call(cost, req, res), req, res, units =>
      this.#decide(rule, key, costOf(units, 'rateLimit: cost gave'), req, res),
    )
  }

  #decide(rule: Rule, key: LimiterKey, cost: number, req: Request, res: Response): SyncOrAsync<Answer> {
    const { limiter } = rule
    // A request that pays at its end must fit now; otherwise a key without remaining units would come in for nothing.
    const paysLater = cost === 0 && this.#settings.settle !== undefined
    const asked = paysLater ? look(limiter, key) : limiter.decide(key, cost)
    // The policy of a given limiter may be a function, which was just called.
    const isSame = this.#settings.given === undefined || limiter.policy === rule.policy
    const used = isSame ? rule : this.#rules.ruleOf(limiter)
    if (isPromise(asked)) return asked.then(decision => this.#decided(used, key, decision, paysLater, req, res))
    return this.#decided(used, key, asked, paysLater, req, res)
  }

  #decided(
    rule: Rule,
    key: LimiterKey,
    decision: Decision,
    paysLater: boolean,
    req: Request,
    res: Response,
  ): SyncOrAsync<Answer> {
    const admission = { limiter: rule.limiter, key, decision, paysLater }
    const ledger = Ledger.of(req as object)
    const twice = ledger.add(admission)
    if (twice !== undefined) this.#warnOfDouble(twice)
    if (!decision.allowed) return this.#deny(rule, decision, req, res)
    const delayMs = Math.max(decision.delayMs, this.#slowDown?.delayMs(decision) ?? 0)
    return this.#pass(rule, admission, ledger, delayMs, req, res)
  }

  /** Once per middleware: a request was charged twice for the same count. Both charges count. */
  #warnOfDouble(limit: Limit): void {
    if (this.#warnedOfDouble) return
    this.#warnedOfDouble = true
    emitWarning(
      'SPILLWAY_DOUBLE',
      `rateLimit: a request was charged twice for the limit "${limit.name}": the same middleware is passed twice, or ` +
        'two limiters count the same key under one name. Mount it once, or give one of them a name of its own, like ' +
        'rateLimit({ name: "uploads" })',
    )
  }

  /**
   * Lets a request continue, after `delayMs` if it must wait. A client that goes away meanwhile gets its units back.
   */
  #pass(
    rule: Rule,
    admission: Admission,
    ledger: Ledger,
    delayMs: number,
    req: Request,
    res: Response,
  ): SyncOrAsync<Answer> {
    const { decision } = admission
    if (delayMs === 0) {
      this.#settling?.follow(admission, req, res)
      const told = ledger.tell(rule.report, decision)
      return { decision: told.decision, fields: told.fields, refusal: undefined }
    }
    const slowed = delayMs > decision.delayMs
    const slowDown = slowed ? this.#slowDown : undefined
    if (slowDown !== undefined && !mayWait()) {
      ledger.remove(admission)
      return after(giveBack(admission), () => this.#refuse(rule, slowDown.refusedInstead(decision), req, res))
    }
    const watch = this.#framework.watch(res, req)
    const told = rule.waits.begin()
    return watch.stays(delayMs).then(async stayed => {
      if (slowed) doneWaiting()
      told?.(stayed ? 'granted' : 'aborted')
      if (stayed) return this.#pass(rule, admission, ledger, 0, req, res)
      // No handler will run: other limits can release the places and units of this request, too.
      watch.end()
      await giveBack(admission)
      return GONE
    })
  }

  #deny(rule: Rule, denial: Decision, req: Request, res: Response): SyncOrAsync<Answer> {
    const struck = this.#autoBlock === undefined ? denial : this.#autoBlock.countDenial(rule.limiter, denial)
    return after(struck, decision => {
      const { defer } = this.#settings
      if (defer?.accepts(decision)) return this.#defer(defer, rule, decision, req, res)
      return this.#refuse(rule, decision, req, res)
    })
  }

  /** Puts a denied request into the queue. */
  async #defer(deferral: Deferral<Args>, rule: Rule, decision: Decision, req: Request, res: Response): Promise<Answer> {
    const args = this.#framework.args(req, res)
    const message = await deferral.message(args)
    const accepted = await deferral.push(message, decision, optionsOf(rule.limiter).observer, args[0])
    if (accepted === undefined) return this.#refuse(rule, decision, req, res)
    const { fields } = Ledger.of(req as object).tell(rule.report, decision)
    return { decision, fields: { ...fields, ...accepted.fields }, refusal: plainReply(accepted) }
  }

  #refuse(rule: Rule, decision: Decision, req: Request, res: Response): Answer {
    const { statusCode, message, handler } = this.#settings
    const { fields, names } = Ledger.of(req as object).tell(rule.report, decision)
    const accept = this.#framework.requestHeader(req, 'accept')
    const refusal = refuse(decision, statusCode, accept, names)
    const args: [...Args, Decision] = [...this.#framework.args(req, res), decision]
    const reply = wordedReply(refusal, { handler, message }, 'rateLimit', args)
    return { decision, fields: { ...fields, ...refusal.fields }, refusal: reply }
  }
}
