import { asyncDispose } from '../../limiter/core/async-dispose.js'
import { BoundedMap } from '../../limiter/core/maps.js'
import { HoldWatch, type WaitEnd } from '../../limiter/core/meters.js'
import { ownCopy, shortKey } from '../../limiter/core/short-key.js'
import { emitWarning } from '../../limiter/core/warnings.js'
import { Client } from '../address/client.js'
import { callOption, keyText } from '../call-option.js'
import { type Answer, type Framework, type Gate, GONE, PASS, wordedReply } from '../framework.js'
import { concurrencyPolicy, type Fields, type Report } from '../headers.js'
import { Ledger } from '../ledger.js'
import { KeyWatch } from '../misuse.js'
import { refuseAtOnce } from '../refusal.js'
import { watchSharedPlaces } from '../same-count.js'
import { after, isPromise, type SyncOrAsync } from '../sync-or-async.js'
import { type ConcurrencyOptions, type ConcurrencySettings, parseConcurrencyOptions } from './options.js'
import type { Place } from './process-places.js'

/** The weight of one request in the mean, which about the last ten requests determine. */
const WEIGHT = 0.2
const MOST_KEYS = 10_000
/** The estimate before the first request has finished. */
const UNKNOWN_MS = 1000

/**
 * The recent duration of requests, for each key: an exponential moving average (as the smoothed round trip of RFC
 * 6298).
 */
export class RetryEstimate {
  readonly #meanMs = new BoundedMap<string, number>(MOST_KEYS)

  took(key: string, ms: number): void {
    const mean = this.#meanMs.get(key)
    this.#meanMs.delete(key)
    this.#meanMs.set(key, mean === undefined ? ms : mean + (ms - mean) * WEIGHT)
  }

  /** When a place is probably free after `ahead` others have had theirs, with `permits` places, in ms. */
  nextFreeMs(key: string, permits: number, ahead: number): number {
    return ((this.#meanMs.get(key) ?? UNKNOWN_MS) * (ahead + 1)) / Math.max(1, permits)
  }
}

/** The methods that the middleware function carries. */
export interface ConcurrencyControls extends AsyncDisposable {
  /** Rejects waiting requests with an error; requests inside may finish. */
  close(): Promise<void>
}

/** The key for all requests if there is no `key` option. Keys from a function have another prefix. */
const WHOLE_SERVICE = '*'

/**
 * Admits up to `permits` requests of a key at once. The middleware passes the request in and carries out the answer.
 */
export class ConcurrencyGate<Request, Response, Args extends readonly unknown[]>
  implements Gate<Request, Response>, ConcurrencyControls
{
  readonly #framework: Framework<Request, Response, Args>
  readonly #settings: ConcurrencySettings<Args>
  readonly #report: Report<undefined> | undefined
  readonly #estimate = new RetryEstimate()
  /** The number of waiting requests of each key. */
  readonly #queued = new Map<string, number>()
  readonly #watch: HoldWatch
  #warnedOfDouble = false
  readonly #client: Client<Request, Response>
  readonly #keys = new KeyWatch('concurrencyLimit')

  /** Checks the options: `PolicyError`. */
  constructor(options: ConcurrencyOptions<Args>, framework: Framework<Request, Response, Args>) {
    this.#framework = framework
    this.#settings = parseConcurrencyOptions(options)
    const { name, observer, client, headers, places } = this.#settings
    if (options.name === undefined) watchSharedPlaces(places)
    if (headers) this.#report = { names: [name], of: (_, names) => this.#fieldsOf(names?.get(name) ?? name) }
    this.#client = new Client(framework, client)
    this.#watch = new HoldWatch(observer, 'concurrency', name)
  }

  /** Throws or rejects if a function of the options fails, or returns an invalid value; then no place is taken. */
  answer(req: Request, res: Response): SyncOrAsync<Answer> {
    const met = this.#client.meet(req, res)
    if (typeof met === 'object') return met
    const { skip } = this.#settings
    if (skip === undefined) return this.#limit(req, res, met)
    const skipped = callOption(skip, this.#framework.args(req, res), 'concurrencyLimit')
    return this.#client.whileThere(skipped, req, res, skipped => (skipped ? PASS : this.#limit(req, res, met)))
  }

  close(): Promise<void> {
    return this.#settings.places.close()
  }

  [asyncDispose](): Promise<void> {
    return this.close()
  }

  /** Adds `close` to a middleware function. */
  equip<Middleware extends object>(middleware: Middleware): Middleware & ConcurrencyControls {
    return Object.assign(middleware, { close: () => this.close(), [asyncDispose]: () => this.close() })
  }

  #limit(req: Request, res: Response, met: string): SyncOrAsync<Answer> {
    const { key } = this.#settings
    if (key === undefined) return this.#enter(WHOLE_SERVICE, req, res)
    if (key === 'address') return this.#enter(placeKey(this.#client.key(req, met)), req, res)
    const asked = callOption(key, this.#framework.args(req, res), 'concurrencyLimit')
    return this.#client.whileThere(asked, req, res, value => {
      const given = keyText(value, 'concurrencyLimit')
      if (given === undefined) {
        this.#keys.missed()
        return PASS
      }
      this.#keys.found()
      this.#client.watchKey(given, req, met)
      return this.#enter(placeKey(given), req, res)
    })
  }

  #enter(key: string, req: Request, res: Response): SyncOrAsync<Answer> {
    if (this.#holds(req, key)) return PASS
    const { places, waitMs, queue } = this.#settings
    const told = this.#watch.begin()
    if (this.#permits === 0) return this.#refuse(key, req, res, told)
    return after(this.#entered(places.enter(key), told), place => {
      if (place !== null) return this.#admit(place, key, req, res, told)
      if (waitMs === 0 || this.#queuedOf(key) >= queue) return this.#refuse(key, req, res, told)
      return this.#wait(key, req, res, told)
    })
  }

  #entered(place: SyncOrAsync<Place | null>, told: WaitEnd | undefined): SyncOrAsync<Place | null> {
    if (told === undefined || !isPromise(place)) return place
    return place.then(undefined, error => {
      told()
      throw error
    })
  }

  async #wait(key: string, req: Request, res: Response, told: WaitEnd | undefined): Promise<Answer> {
    const { places, waitMs } = this.#settings
    const watch = this.#framework.watch(res, req)
    const gone = new AbortController()
    const forget = watch.onEnd({ withinMs: 0 }, () => gone.abort(GONE))
    this.#queued.set(key, this.#queuedOf(key) + 1)
    let place: Place | null
    try {
      place = await places.wait(key, waitMs, gone.signal)
    } catch (error) {
      told?.(error === GONE ? 'aborted' : undefined)
      if (error !== GONE) throw error
      watch.end()
      return GONE
    } finally {
      forget()
      const left = this.#queuedOf(key) - 1
      if (left > 0) this.#queued.set(key, left)
      else this.#queued.delete(key)
    }
    return place === null ? this.#refuse(key, req, res, told) : this.#admit(place, key, req, res, told)
  }

  #admit(place: Place, key: string, req: Request, res: Response, told: WaitEnd | undefined): Answer {
    const watch = this.#framework.watch(res, req)
    if (watch.gone || watch.ended) {
      told?.('aborted')
      place.leave()
      // No handler will run: other limits can release the places and units of this request, too.
      watch.end()
      return GONE
    }
    told?.('granted')
    const ledger = Ledger.of(req as object)
    ledger.hold({ places: this.#settings.places, key })
    const tellLeft = this.#watch.hold(1, place.lease)
    const enteredAt = performance.now()
    const { permits, abandonAfterMs } = this.#settings
    const measured = typeof permits === 'number' ? undefined : permits.enter()
    watch.onEnd({ withinMs: abandonAfterMs, orDetached: true }, ({ ended, completed }) => {
      measured?.(ended && completed && !watch.streamed)
      const kept = place.leave()
      tellLeft?.(!kept)
      if (ended) this.#estimate.took(key, performance.now() - enteredAt)
    })
    return this.#report === undefined ? PASS : { ...PASS, fields: ledger.tell(this.#report, undefined).fields }
  }

  #refuse(key: string, req: Request, res: Response, told: WaitEnd | undefined): Answer {
    told?.('timeout')
    const { statusCode, message, handler } = this.#settings
    const said = this.#report && Ledger.of(req as object).tell(this.#report, undefined)
    const name = said?.names?.get(this.#settings.name) ?? this.#settings.name
    const afterMs = this.#estimate.nextFreeMs(key, this.#permits, this.#queuedOf(key))
    const accept = this.#framework.requestHeader(req, 'accept')
    const refusal = refuseAtOnce(
      { name, status: statusCode, retryAfterMs: afterMs, wholeService: key === WHOLE_SERVICE },
      accept,
    )
    const reply = wordedReply(refusal, { handler, message }, 'concurrencyLimit', this.#framework.args(req, res))
    return { decision: undefined, fields: { ...said?.fields, ...refusal.fields }, refusal: reply }
  }

  /** Where another draft's list is set, that stays: it has a state beside it, and a concurrency limit has none. */
  #fieldsOf(name: string): Fields {
    return { 'RateLimit-Policy': concurrencyPolicy(name, this.#permits) }
  }

  /** Whether the request has a place of this key: then it needs no other, for which it would wait for itself. */
  #holds(req: Request, key: string): boolean {
    const { places, name } = this.#settings
    if (!Ledger.of(req as object).holds(places, key)) return false
    if (this.#warnedOfDouble) return true
    this.#warnedOfDouble = true
    emitWarning(
      'SPILLWAY_DOUBLE',
      `concurrencyLimit: a request came twice for a place of "${name}", and holds one: the same middleware is passed ` +
        'twice, or two limits count the same key under one name. Mount it once, or give one of them a name of its ' +
        'own, like concurrencyLimit({ name: "uploads" })',
    )
    return true
  }

  /** The current number of permits. */
  get #permits(): number {
    const { permits } = this.#settings
    return typeof permits === 'number' ? permits : permits.limit
  }

  #queuedOf(key: string): number {
    return this.#queued.get(key) ?? 0
  }
}

/** The key under which places are counted: long keys are hashed, so that memory is bounded in bytes. */
function placeKey(key: string): string {
  return `=${ownCopy(shortKey(key))}`
}
