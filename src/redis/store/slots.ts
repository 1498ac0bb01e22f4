import { LONGEST_TIMER_MS } from '../../limiter/core/clock.js'
import type { Verdict } from '../../limiter/core/decision.js'
import { StoreError } from '../../limiter/core/errors.js'
import { type Charge, type ChargeReceipt, receiptsOf } from '../../limiter/store.js'
import type { Batcher } from './batcher.js'

/** Charges that may share a script call, and their indexes in the whole decision. */
interface ChargeGroup<C extends Charge> {
  readonly tag: number
  readonly charges: C[]
  readonly indexes: number[]
}

export function groupByTag<C extends Charge>(
  charges: readonly C[],
  tagOf: (charge: Charge) => number,
): readonly ChargeGroup<C>[] {
  const groups: ChargeGroup<C>[] = []
  charges.forEach((charge, index) => {
    const tag = tagOf(charge)
    let group = groups.find(group => group.tag === tag)
    if (group === undefined) {
      group = { tag, charges: [], indexes: [] }
      groups.push(group)
    }
    group.charges.push(charge)
    group.indexes.push(index)
  })
  return groups
}

interface DecidedApart {
  readonly verdicts: readonly Verdict[]
  /** By the clock of each limit's server, ms. */
  readonly chargedAt: readonly number[]
}

/**
 * One decision over keys of several slots, which no single script call can access: it asks slot by slot, and gives back
 * what was spent if a later slot refuses, or does not answer until `endsAt`. Meanwhile other requests see those units
 * as spent. `asks` is called with each tag before its server is asked.
 */
export async function consumeApart(
  groups: readonly ChargeGroup<Charge>[],
  asked: Batcher,
  peeks: Batcher,
  cost: number,
  endsAt: number | undefined,
  asks: (tag: number) => void,
  giveBack: (receipts: readonly ChargeReceipt[]) => Promise<void>,
): Promise<DecidedApart> {
  const verdicts: Verdict[] = []
  const chargedAt: number[] = []
  const spent: ChargeReceipt[] = []
  let denied = false
  try {
    for (const group of groups) {
      asks(group.tag)
      // After a refusal the other slots are only peeked at, to find the longest wait.
      const spends = !denied
      const decided = (spends ? asked : peeks).verdicts(group.charges, cost, group.tag, endsAt)
      const { verdicts: answer, decidedAt } = await inTime(decided, endsAt, late => {
        if (spends && isAllowed(late))
          giveBack(receiptsOf(group.charges, late.verdicts, late.decidedAt, cost)).catch(() => {})
      })
      group.indexes.forEach((index, i) => {
        verdicts[index] = answer[i]
        chargedAt[index] = decidedAt
      })
      if (!isAllowed({ verdicts: answer })) denied = true
      else if (spends) spent.push(...receiptsOf(group.charges, answer, decidedAt, cost))
    }
  } catch (error) {
    await giveBack(spent).catch(() => {})
    throw error
  }
  if (!denied) return { verdicts, chargedAt }
  await giveBack(spent)
  for (const group of groups) {
    if (!group.indexes.every(index => verdicts[index].allowed)) continue
    const { verdicts: standing } = await peeks.verdicts(group.charges, 0, group.tag, endsAt)
    group.indexes.forEach((index, i) => {
      verdicts[index] = standing[i]
    })
  }
  return { verdicts, chargedAt }
}

function isAllowed({ verdicts }: { readonly verdicts: readonly Verdict[] }): boolean {
  return verdicts.every(({ allowed }) => allowed)
}

/**
 * Settles as `answer`, or rejects at `endsAt`, by `performance.now()`; then `late` receives the answer if it comes
 * after all.
 */
function inTime<T>(answer: Promise<T>, endsAt: number | undefined, late: (value: T) => void): Promise<T> {
  if (endsAt === undefined) return answer
  return new Promise((resolve, reject) => {
    let isOver = false
    const timer = setTimeout(
      () => {
        isOver = true
        reject(new StoreError('a server of the cluster did not answer in time'))
      },
      Math.min(endsAt - performance.now(), LONGEST_TIMER_MS),
    )
    answer.then(
      value => {
        clearTimeout(timer)
        if (isOver) late(value)
        else resolve(value)
      },
      error => {
        clearTimeout(timer)
        reject(error)
      },
    )
  })
}
