import type { Verdict } from '../../core/decision.js'
import { type Charge, type ChargeReceipt, receiptsOf } from '../store.js'
import type { Batcher } from './batcher.js'

/** Charges that may share a script call, and their indexes in the whole decision. */
interface ChargeGroup {
  readonly tag: number
  readonly charges: Charge[]
  readonly places: number[]
}

export function groupByTag(charges: readonly Charge[], tagOf: (charge: Charge) => number): readonly ChargeGroup[] {
  const groups: ChargeGroup[] = []
  charges.forEach((charge, place) => {
    const tag = tagOf(charge)
    let group = groups.find(group => group.tag === tag)
    if (group === undefined) {
      group = { tag, charges: [], places: [] }
      groups.push(group)
    }
    group.charges.push(charge)
    group.places.push(place)
  })
  return groups
}

interface DecidedApart {
  readonly verdicts: readonly Verdict[]
  /** By the clock of each limit's server, ms. */
  readonly chargedAt: readonly number[]
}

/**
 * One decision over keys of several slots, which no single script call can access: it asks slot by slot, and gives back what was spent
 * if a later slot refuses. Meanwhile other requests see those units as spent. `asks` is called with each tag before its server is asked.
 */
export async function consumeApart(
  groups: readonly ChargeGroup[],
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
      const decided = await (denied ? peeks : asked).verdicts(group.charges, cost, group.tag, endsAt)
      const { verdicts: answer, decidedAt } = decided
      group.places.forEach((place, i) => {
        verdicts[place] = answer[i]
        chargedAt[place] = decidedAt
      })
      if (answer.some(verdict => !verdict.allowed)) denied = true
      else if (!denied) spent.push(...receiptsOf(group.charges, answer, decidedAt, cost))
    }
  } catch (error) {
    await giveBack(spent).catch(() => {})
    throw error
  }
  if (!denied) return { verdicts, chargedAt }
  await giveBack(spent)
  for (const group of groups) {
    if (!group.places.every(place => verdicts[place].allowed)) continue
    const { verdicts: standing } = await peeks.verdicts(group.charges, 0, group.tag, endsAt)
    group.places.forEach((place, i) => {
      verdicts[place] = standing[i]
    })
  }
  return { verdicts, chargedAt }
}
