import { keySegment } from '../limiter/core/key-segment.js'
import { keyRoot } from '../redis/keys.js'
import { Account } from './account.js'
import type { Call } from './call.js'
import type { Resource as Own } from './departure.js'
import type { Kind, Waiter } from './line.js'

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

export type Resource = Own | Foreign

/** A call of which an ask tells, and the call whose turn it is given there: itself, or one that it may pass. */
interface Told {
  readonly waiter: Waiter
  readonly turn: Call
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
  /** By their order: the calls of which it tells. */
  readonly #told = new Map<number, Told>()
  /** By the calls that have left: those that they have passed, and that have their turns. */
  readonly #passed = new Map<Call, Call>()
  readonly questions: Waiter[] = []
  /** There was more to say. */
  hasMore = false
  readonly #numbers = new Map<Resource, number>()
  #calls = ''
  #questionText = ''

  constructor(readonly prefix: string) {}

  /** The number of a budget or of places. */
  numberOf(one: Resource): number {
    let number = this.#numbers.get(one)
    if (number === undefined) {
      const key = keyOf(one, this.prefix)
      if (!this.resources.has(key)) this.resources.set(key, one)
      number = [...this.resources.keys()].indexOf(key) + 1
      this.#numbers.set(one, number)
    }
    return number
  }

  /** The calls of one kind that wait. `numberOf` of what it takes from must be known before. */
  addCalls(kind: Kind): void {
    const first = kind.first as Waiter
    const numbers = resourcesOf(first.call).map(one => this.numberOf(one))
    this.#calls += `${numbers.join(' ')}\t`
    if (kind.size > WINDOW) this.hasMore = true
    // Calls of a higher priority are given the turns of those that they may pass.
    const turns = firstTurns(kind)
    let index = 0
    for (const waiter of kind) {
      const turn = turns[index++]
      if (turn === undefined) break
      const { charges, places, order } = waiter.call
      this.#told.set(order, { waiter, turn })
      const units = [...charges.map(charge => charge.units), ...places.map(() => 1)]
      const age = Math.floor(this.at - turn.turnAt)
      this.#calls += `${age} ${order} ${waiter.timeoutMs > 0 ? '+' : '-'} ${units.join(' ')};`
    }
    this.#calls += '\n'
    for (const waiter of kind.unjudged) {
      if (waiter.isJudged) kind.unjudged.delete(waiter)
      else if (this.questions.length === MOST_QUESTIONS) {
        this.hasMore = true
        return
      } else this.#addQuestion(waiter)
    }
  }

  /**
   * The call of this order leaves, in the turn that was told. The call that it has passed has its turn from now on: so
   * its process is served no more than others.
   */
  leaves(order: number): Waiter {
    const { waiter, turn } = this.#told.get(order) as Told
    const { call } = waiter
    let passed = turn
    for (let next = this.#passed.get(passed); next !== undefined; next = this.#passed.get(passed)) passed = next
    if (passed !== call) this.#passed.set(call, passed)
    const { turnAt } = passed
    passed.turnAt = call.turnAt
    call.turnAt = turnAt
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

  get keys(): string[] {
    return [...this.resources.keys()].flatMap(key => [key, `${key}:units`])
  }

  /**
   * Rates, the rows of this process, calls, units that wait, and questions. `rowOf`: what this process counts under a
   * key.
   */
  words(rowOf: (key: string) => string): string[] {
    let [given, rows] = ['', '']
    const totals: number[] = []
    for (const [key, one] of this.resources) {
      given += `${limitOf(one).join(' ')},`
      rows += `${rowOf(key)};`
      totals.push(one instanceof Account ? one.waiting(0) : 0)
    }
    return [given, rows, this.#calls, totals.join(' '), this.#questionText]
  }
}

/** The key under which a budget or places are counted over all processes. */
export function keyOf(one: Resource, prefix: string): string {
  if ('key' in one) return one.key
  const root = (kind: string) => keyRoot('politeFetch', kind, 'outgoing', prefix)
  if (!(one instanceof Account)) return `${root('places')}:${keySegment(one.partner)}`
  return `${root('budget')}:${keySegment(one.partner)}:${keySegment(one.budget.id)}`
}

/** The calls with the first turns of a kind, in the order of their turns. */
function firstTurns(kind: Kind): Call[] {
  const first: Call[] = []
  for (const { call } of kind) {
    if (first.length === WINDOW && call.turnAt >= first[WINDOW - 1].turnAt) continue
    let at = first.length
    while (at > 0 && first[at - 1].turnAt > call.turnAt) at--
    first.splice(at, 0, call)
    if (first.length > WINDOW) first.pop()
  }
  return first
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
