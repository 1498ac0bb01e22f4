import { CostError, shown, TimeoutError } from '../limiter/core/errors.js'
import { watched } from '../limiter/core/meters.js'
import { type Patience, Wait } from '../limiter/core/wait.js'
import { emitWarning } from '../limiter/core/warnings.js'
import { type Account, type CheckedBudget, tooLong } from './account.js'
import type { Call } from './call.js'
import { isCancelled } from './copied-answer.js'
import type { Departure } from './departure.js'
import type { CallLine } from './line.js'
import type { Partner } from './partner.js'

/**
 * A wait is extended at random by at most this share of it, or this many ms, whichever is more, so that waiting calls
 * do not all leave at one moment.
 */
const JITTER_SHARE = 0.2
const JITTER_MS = 250

/** A call that was sent. */
interface Sent {
  readonly departure: Departure
  readonly answer: Promise<Response>
}

/**
 * The way of one call out: the partners whose limits and pauses hold for it, from the widest to the narrowest. They are
 * not forgotten before `leave`.
 */
export class Route {
  readonly #partners: readonly Partner[]
  readonly #line: CallLine
  readonly #accounts: readonly Account[]
  readonly #order: number
  readonly #cameAt = performance.now()
  #call: Call | undefined
  #costs: readonly number[]

  constructor(partners: readonly Partner[], line: CallLine) {
    this.#partners = partners
    this.#line = line
    this.#order = line.nextOrder()
    this.#accounts = partners.length === 1 ? partners[0].accounts : partners.flatMap(({ accounts }) => accounts)
    this.#costs = this.#accounts.map(() => 1)
    this.#hold()
  }

  /** True if this process knows how much the partners allow in a time. */
  get isLimited(): boolean {
    return this.#accounts.length > 0
  }

  /**
   * Finds what the call costs, and returns how many ms that took. Rejects with `CostError` if that is no cost, or can
   * never fit, with `TimeoutError` if it is not known in time, and with the reason of the signal.
   */
  async estimate(url: URL, init: RequestInit | undefined, patience: Patience): Promise<number> {
    patience.signal?.throwIfAborted()
    if (this.#accounts.every(({ budget }) => budget.cost === undefined)) return 0
    const startedAt = performance.now()
    const costs = Promise.all(this.#accounts.map(account => costOf(account, url, init)))
    const { name } = this.#partners[this.#partners.length - 1]
    const slow = () => new TimeoutError(`politeFetch: ${name}: cost did not answer within maxWait`)
    this.#costs = await within(costs, patience, slow)
    return performance.now() - startedAt
  }

  /**
   * Waits until the call may leave, and sends it: there is no moment between its permission and its sending at which
   * somebody else could leave. `delayMs`: it was refused before, and waits at least so long. Rejects with
   * `TimeoutError` at once if the wait is longer than the timeout, and with the reason of the signal.
   */
  async send(
    { timeoutMs, signal }: Patience,
    priority: number,
    delayMs: number | undefined,
    send: () => Promise<Response>,
  ): Promise<Sent> {
    const endsAt = performance.now() + timeoutMs
    const left = (): Patience => ({ timeoutMs: Math.max(0, Math.ceil(endsAt - performance.now())), signal })
    this.#call ??= this.#callOf(priority)
    const call = this.#call
    for (let delay = delayMs; ; delay = undefined) {
      signal?.throwIfAborted()
      await this.#waitForPause(left(), delay)
      const departure = await this.#take(call, left())
      // Meanwhile the partner may have asked for a pause, or the caller may have gone.
      await this.#look(signal).catch(() => {})
      if (this.#mostPaused.pause.leftMs > 0 || signal?.aborted) departure.unused()
      else if (departure.sends()) return { departure, answer: started(send) }
    }
  }

  /** True if some budget asks its answers what they have cost. */
  get settles(): boolean {
    return this.#accounts.some(({ budget }) => budget.settle !== undefined)
  }

  /**
   * What the call has really cost, as its answer tells. The budgets' functions have begun to read it when this returns,
   * and have ended when the promise resolves. Never rejects.
   */
  async settle(answer: Response, departure: Departure): Promise<void> {
    await Promise.all(
      this.#accounts.map(async ({ budget }, index) => {
        if (budget.settle === undefined) return
        this.#hold()
        departure.settle(index, await settle(budget, answer, this.#costs[index]))
        this.leave()
      }),
    )
  }

  /**
   * The answer asks for a pause. Only the narrowest partner takes it: whether the others are to pause, too, their own
   * calls will tell.
   */
  asksFor(pauseMs: number): void {
    this.#partners[this.#partners.length - 1].asksFor(pauseMs)
  }

  leave(): void {
    for (const partner of this.#partners) partner.calls--
  }

  #hold(): void {
    for (const partner of this.#partners) partner.calls++
  }

  get #mostPaused(): Partner {
    return this.#partners.reduce((most, one) => (one.pause.leftMs > most.pause.leftMs ? one : most))
  }

  /**
   * Rejects with the reason of the signal, and with nothing else. The same way with and without a signal, so that no
   * call overtakes another here.
   */
  async #look(signal: AbortSignal | undefined): Promise<void> {
    const looks = Promise.all(this.#partners.map(({ pause }) => pause.look()))
    await within(looks, { timeoutMs: Number.POSITIVE_INFINITY, signal })
  }

  async #waitForPause({ timeoutMs, signal }: Patience, delayMs: number | undefined): Promise<void> {
    await this.#look(signal)
    const { name, pause } = this.#mostPaused
    const waitMs = Math.max(pause.leftMs, delayMs ?? 0)
    if (waitMs > timeoutMs) throw tooLong(name, waitMs)
    // With limits of our own, calls do not all leave at one moment.
    if (this.isLimited && waitMs > 0) await pause.sleep(Math.min(timeoutMs, waitMs), signal)
    if (this.isLimited || (waitMs === 0 && delayMs === undefined)) return
    const jitterMs = Math.random() * Math.max(JITTER_SHARE * waitMs, JITTER_MS)
    await pause.sleep(Math.min(timeoutMs, waitMs + jitterMs), signal)
  }

  #callOf(priority: number): Call {
    const limited = this.#partners.filter(({ accounts, places }) => accounts.length > 0 || places !== undefined)
    const names = limited.map(({ name }) => name)
    return {
      kind: JSON.stringify(names),
      partners: names,
      charges: this.#accounts.map((account, index) => ({ account, units: this.#costs[index] })),
      places: limited.flatMap(({ places }) => places ?? []),
      priority,
      order: this.#order,
      turnAt: this.#cameAt,
      wasLate: false,
      notBefore: 0,
      pauseMs: () => {
        const { pause } = this.#mostPaused
        if (pause.leftMs > 0) void pause.look()
        return pause.leftMs
      },
    }
  }

  async #take(call: Call, patience: Patience): Promise<Departure> {
    let take = () => this.#line.take(call, patience)
    for (const { watches } of this.#partners) {
      for (const watch of watches) {
        const inner = take
        take = () => watched(watch, patience.signal, inner)
      }
    }
    const departure = await take()
    for (const partner of this.#partners) {
      partner.report()
      const released = partner.holds?.hold(1)
      if (released !== undefined) departure.onLeave(() => released(false))
    }
    return departure
  }
}

/** What throws at once has been sent as well, as far as anybody knows. */
async function started(send: () => Promise<Response>): Promise<Response> {
  return send()
}

async function costOf({ subject, budget }: Account, url: URL, init: RequestInit | undefined): Promise<number> {
  const cost = budget.cost === undefined ? 1 : await budget.cost(url, init)
  if (Number.isSafeInteger(cost) && cost >= 0 && cost <= budget.rate) return cost
  const expected = `expected an integer from 0 to ${budget.rate}, like 1`
  throw new CostError(`politeFetch: ${subject}: cost ${shown(cost)}: ${expected}`)
}

/** What a promise gives, unless the patience ends before. */
async function within<T>(promise: Promise<T>, patience: Patience, late: () => unknown = () => undefined): Promise<T> {
  const wait = new Wait<T>(patience, late)
  promise.then(
    value => wait.resolve(value),
    error => wait.reject(error),
  )
  return wait.promise
}

/** Budgets whose `settle` has failed. */
const WARNED = new WeakSet<CheckedBudget>()

/** What the call has really cost; undefined: as estimated. Never rejects. */
async function settle(budget: CheckedBudget, answer: Response, estimated: number): Promise<number | undefined> {
  try {
    const units = await budget.settle?.(answer, estimated)
    if (units === undefined || (Number.isSafeInteger(units) && units >= 0)) return units
    throw new TypeError(`${shown(units)} is no integer ≥ 0`)
  } catch (error) {
    // The caller does not want the rest of the answer.
    if (isCancelled(error)) return undefined
    if (WARNED.has(budget)) return undefined
    WARNED.add(budget)
    emitWarning(
      'SPILLWAY_SETTLE',
      `politeFetch: settle of budget ${shown(budget.name)} failed, so the estimated cost stays: ` +
        `${(error as Error)?.message ?? error}`,
    )
    return undefined
  }
}
