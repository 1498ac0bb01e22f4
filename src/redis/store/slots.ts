import { LONGEST_TIMER_MS } from '../../limiter/core/clock.js'
import { type Verdict, verdictOf } from '../../limiter/core/decision.js'
import { StoreError } from '../../limiter/core/errors.js'
import { type Charge, type ChargeReceipt, DEFAULT_DEADLINE_MS, receiptsOf } from '../../limiter/store.js'
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
 * as spent. `movesTo` is called with each tag before its server is asked.
 */
export async function consumeApart(
  groups: readonly ChargeGroup<Charge>[],
  asked: Batcher,
  peeks: Batcher,
  cost: number,
  endsAt: number | undefined,
  movesTo: (tag: number) => void,
  giveBack: (receipts: readonly ChargeReceipt[]) => Promise<void>,
): Promise<DecidedApart> {
  const verdicts: Verdict[] = []
  const chargedAt: number[] = []
  const spent: ChargeReceipt[] = []
  const returned = async () => {
    if (spent.length > 0) await giveBack(spent)
  }
  for (const group of groups) {
    movesTo(group.tag)
    const decided = asked.verdicts(group.charges, cost, group.tag, endsAt)
    const { verdicts: answer, decidedAt } = await inTime(decided, endsAt, late => {
      if (isAllowed(late)) giveBack(receiptsOf(group.charges, late.verdicts, late.decidedAt, cost)).catch(() => {})
    }).catch(error => {
      returned().catch(() => {})
      throw error
    })
    group.indexes.forEach((index, i) => {
      verdicts[index] = answer[i]
      chargedAt[index] = decidedAt
    })
    if (isAllowed({ verdicts: answer })) {
      spent.push(...receiptsOf(group.charges, answer, decidedAt, cost))
      continue
    }
    const back = returned()
    const others = groups.filter(other => other !== group)
    await Promise.all(
      others.map(async other => {
        const isSpent = verdicts[other.indexes[0]] !== undefined
        const standing = await beside(other, peeks, isSpent ? 0 : cost, endsAt, isSpent ? back : undefined)
        other.indexes.forEach((index, i) => {
          verdicts[index] = standing[i]
        })
      }),
    )
    return { verdicts, chargedAt }
  }
  return { verdicts, chargedAt }
}

/**
 * The verdicts of a slot beside a refusal by another: of the limits that refuse this cost, too, when it fits, and of
 * the others what is left, once what was spent there is given `back`. The refusal stands anyway, so a server that has
 * not answered when half of the time is over is shown as one of whose units nothing is known to be left.
 */
async function beside(
  { charges, tag }: ChargeGroup<Charge>,
  peeks: Batcher,
  cost: number,
  endsAt: number | undefined,
  back: Promise<void> | undefined,
): Promise<readonly Verdict[]> {
  const now = performance.now()
  const halfway = now + ((endsAt ?? now + DEFAULT_DEADLINE_MS) - now) / 2
  const peek = (units: number) => inTime(peeks.verdicts(charges, units, tag, halfway), halfway, () => {})
  try {
    if (back !== undefined) await inTime(back, halfway, () => {})
    const [left, wanted] = await Promise.all([peek(0), cost === 0 ? undefined : peek(cost)])
    return wanted === undefined || isAllowed(wanted) ? left.verdicts : wanted.verdicts
  } catch {
    return charges.map(({ limit }) => verdictOf(limit, 0, 0, 0))
  }
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
