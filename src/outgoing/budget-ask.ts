import { keySegment } from '../limiter/core/key-segment.js'
import { keyRoot } from '../redis/keys.js'
import { Account } from './account.js'
import type { Call, Places, Waiter } from './line.js'
import type { SharedCharge } from './shared-departure.js'

/** How many calls of one kind an ask tells the server of. It lets as many leave at once. */
const WINDOW = 64
/** How many calls of an ask are told how long they would wait: so that the server works for about 1 ms. */
const MOST_QUESTIONS = 64

/** A budget, or places (then `intervalMs` is 0), for which only other processes wait. */
interface Foreign {
  readonly key: string
  readonly rate: number
  readonly intervalMs: number
}

export type Resource = Account | Places | Foreign

/** A call of which an ask tells, the turn that it is given there, and the calls whose turn that may be. */
interface Told {
  readonly waiter: Waiter
  readonly turnAt: number
  readonly kind: readonly Waiter[]
}

/**
 * One ask of a process, as lua/outgoing/budget_ask.lua reads it. Budgets and places get their numbers when they are
 * first spoken of.
 */
export class BudgetAsk {
  readonly at = performance.now()
  /**
   * By key, in the order of their numbers: after its partner was forgotten, a budget may be another object than before.
   */
  readonly resources = new Map<string, Resource>()
  /** By their order: the calls of which it tells, each with its turn and all of its kind. */
  readonly #told = new Map<number, Told>()
  readonly questions: Waiter[] = []
  readonly answered: SharedCharge[] = []
  /** There was more to say. */
  hasMore = false
  readonly #numbers = new Map<Resource, number>()
  #calls = ''
  #questionText = ''
  #changes = ''

  constructor(readonly prefix: string) {}

  /** The number of a budget or of places. */
  numberOf(one: Resource): number {
    let number = this.#numbers.get(one)
    if (number === undefined) {
      const key = this.#keyOf(one)
      if (!this.resources.has(key)) this.resources.set(key, one)
      number = [...this.resources.keys()].indexOf(key) + 1
      this.#numbers.set(one, number)
    }
    return number
  }

  /** The calls of one kind that wait, in the order in which they leave. */
  addCalls(kind: readonly Waiter[]): void {
    const window = kind.slice(0, WINDOW)
    if (kind.length > WINDOW) this.hasMore = true
    this.#calls += `${resourcesOf(kind[0].call)
      .map(one => this.numberOf(one))
      .join(' ')}\t`
    // Calls of a higher priority are given the turns of those that they may pass.
    const turns = kind.map(({ call }) => call.turnAt).sort((a, b) => a - b)
    for (const [index, waiter] of window.entries()) {
      this.#told.set(waiter.call.order, { waiter, turnAt: turns[index], kind })
      const { charges, places, order } = waiter.call
      const units = [...charges.map(charge => charge.units), ...places.map(() => 1)]
      this.#calls += `${Math.floor(this.at - turns[index])} ${order} ${waiter.timeoutMs > 0 ? '+' : '-'} ${units.join(' ')};`
    }
    this.#calls += '\n'
    for (const waiter of kind) {
      if (waiter.isJudged) continue
      if (this.questions.length === MOST_QUESTIONS) {
        this.hasMore = true
        return
      }
      this.#addQuestion(waiter)
    }
  }

  /**
   * The call of this order leaves, in the turn that was told. The call that it has passed has its turn from now on: so
   * its process is served no more than others.
   */
  leaves(order: number): Waiter {
    const { waiter, turnAt, kind } = this.#told.get(order) as Told
    const passed = kind.find(({ call }) => call.turnAt === turnAt)?.call
    if (passed !== undefined) passed.turnAt = waiter.call.turnAt
    waiter.call.turnAt = turnAt
    return waiter
  }

  /** How long would it wait? */
  #addQuestion(waiter: Waiter): void {
    this.questions.push(waiter)
    for (const { account, units } of waiter.call.charges) {
      const ahead = Math.max(0, account.waiting(waiter.urgency) - units)
      this.#questionText += `${this.numberOf(account)} ${units} ${ahead},`
    }
    this.#questionText += ';'
  }

  /** What has changed of a charge, which is told once. */
  addChange(charge: SharedCharge): void {
    const number = this.numberOf(charge.account)
    const { end, back, more, units } = charge
    if (back > 0 && end !== undefined) this.#changes += `b ${number} ${end} ${back};`
    if (charge.answered && end !== undefined && units > 0) this.#changes += `a ${number} ${end} ${units};`
    if (more > 0) this.#changes += `c ${number} 0 ${more};`
    if (charge.answered) this.answered.push(charge)
    charge.back = charge.more = 0
    charge.answered = false
  }

  /** The holder keeps its places for so long; 0: it has left. */
  addLease(holder: string, places: readonly Places[], leaseMs: number): void {
    for (const one of places) this.#changes += `p ${this.numberOf(one)} ${holder} ${leaseMs};`
  }

  get keys(): string[] {
    return [...this.resources].flatMap(([key, one]) => [key, limitOf(one)[1] > 0 ? `${key}:units` : key])
  }

  /** Rates, changes, calls, units that wait, and questions. */
  get words(): string[] {
    let given = ''
    const totals: number[] = []
    for (const one of this.resources.values()) {
      given += `${limitOf(one).join(' ')},`
      totals.push(one instanceof Account ? one.waiting(0) : 0)
    }
    return [given, this.#changes, this.#calls, totals.join(' '), this.#questionText]
  }

  #keyOf(one: Resource): string {
    if ('key' in one) return one.key
    const root = (kind: string) => keyRoot('politeFetch', kind, 'outgoing', this.prefix)
    if (!(one instanceof Account)) return `${root('places')}:${keySegment(one.partner)}`
    return `${root('budget')}:${keySegment(one.partner)}:${keySegment(one.budget.id)}`
  }
}

function resourcesOf({ charges, places }: Call): Resource[] {
  return [...charges.map(({ account }) => account), ...places]
}

/** Of a line that the script tells: "rate interval key". */
export function foreignOf(line: string): Foreign {
  const [, rate, intervalMs, key] = /^(\d+) (\d+) (.*)$/.exec(line) as RegExpExecArray
  return { key, rate: Number(rate), intervalMs: Number(intervalMs) }
}

/** Rate and interval; of places 0. */
function limitOf(one: Resource): readonly [rate: number, intervalMs: number] {
  if (one instanceof Account) return [one.budget.rate, one.budget.intervalMs]
  return 'key' in one ? [one.rate, one.intervalMs] : [one.permits, 0]
}
