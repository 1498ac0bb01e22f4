import { type LineWaiter, waiterText } from './line-waiter.js'

/** The most changes in one ask: the server processes them in about 1 ms. */
const MOST_CHANGES = 64

/** A grant that its waiter no longer wants. */
interface Return {
  /** See `waiterText`. */
  readonly waiter: string
  /** See `LineWaiter`. */
  readonly grant: string
}

/** A change that only the user of the line defines, like the end of a lease. */
export interface OwnChange {
  readonly letter: string
  readonly words: readonly [string, string, string]
  answered(number: number): unknown
  failed(error: unknown): unknown
}

/** The changes in one ask. */
export interface LineChangeSet<Grant> {
  readonly leaves: readonly LineWaiter<Grant>[]
  readonly returns: readonly Return[]
  readonly lateGrants: readonly LineWaiter<Grant>[]
  readonly own: readonly OwnChange[]
  readonly joins: readonly LineWaiter<Grant>[]
}

/** The changes of a member since its last ask. */
export class LineChanges<Grant> {
  readonly leaves = new Set<LineWaiter<Grant>>()
  readonly lateGrants = new Set<LineWaiter<Grant>>()
  readonly joins = new Set<LineWaiter<Grant>>()
  returns: Return[] = []
  own: OwnChange[] = []

  get isEmpty(): boolean {
    return this.size === 0
  }

  get size(): number {
    return this.leaves.size + this.lateGrants.size + this.joins.size + this.returns.length + this.own.length
  }

  /** True if no caller waits for any of these changes, so that more may be collected before they are sent. */
  get canGather(): boolean {
    return this.lateGrants.size + this.joins.size + this.own.length === 0 && this.size < MOST_CHANGES
  }

  /** Takes out as many changes as one ask may carry, in the order in which the server must apply them. */
  take(): LineChangeSet<Grant> {
    let room = MOST_CHANGES
    const first = <T>(from: Iterable<T>): T[] => {
      const taken: T[] = []
      for (const one of from) {
        if (taken.length >= room) break
        taken.push(one)
      }
      room -= taken.length
      return taken
    }
    const leaves = first(this.leaves)
    const returns = first(this.returns)
    const lateGrants = first(this.lateGrants)
    const own = first(this.own)
    const joins = first(this.joins)
    for (const waiter of leaves) this.leaves.delete(waiter)
    for (const waiter of lateGrants) this.lateGrants.delete(waiter)
    for (const waiter of joins) this.joins.delete(waiter)
    this.returns = this.returns.slice(returns.length)
    this.own = this.own.slice(own.length)
    return { leaves, returns, lateGrants, own, joins }
  }

  /** Puts back the returns and own changes of an ask that was not carried out. */
  putBack({ returns, own }: LineChangeSet<Grant>): void {
    this.returns = [...returns, ...this.returns]
    this.own = [...own, ...this.own]
  }
}

/** The changes as line_ask.lua reads them: four words for each, and a newline after each word. `maxWaitMs` returns the longest time that a waiter waits. */
export function changeText<Grant>(
  { leaves, returns, lateGrants, own, joins }: LineChangeSet<Grant>,
  maxWaitMs: (waiter: LineWaiter<Grant>) => number,
): string {
  let text = ''
  for (const waiter of leaves) text += `l\n${waiterText(waiter)}\n\n\n`
  for (const { waiter, grant } of returns) text += `r\n${waiter}\n\n${grant}\n`
  for (const waiter of lateGrants) text += `g\n${waiterText(waiter)}\n${waiter.ticket}\n${waiter.grant}\n`
  for (const { letter, words } of own) text += `${letter}\n${words[0]}\n${words[1]}\n${words[2]}\n`
  for (const waiter of joins) {
    const mostMs = maxWaitMs(waiter)
    const ms = mostMs === Number.POSITIVE_INFINITY ? -1 : Math.floor(mostMs)
    text += `j\n${waiterText(waiter)}\n${waiter.ticket ?? ''}\n${ms}\n`
  }
  return text
}
