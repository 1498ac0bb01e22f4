import { describe, expect, test } from '@jest/globals'
import { type Verdict, verdictOf } from '../../../src/limiter/core/decision.js'
import { parsePolicy } from '../../../src/limiter/core/limit.js'
import type { Charge, ChargeReceipt } from '../../../src/limiter/store.js'
import type { Batcher } from '../../../src/redis/store/batcher.js'
import { consumeApart, groupByTag } from '../../../src/redis/store/slots.js'

const [first, second] = parsePolicy('10/1m name=first; 5/1m name=second')
const charges: readonly Charge[] = [
  { key: 'a', limit: first },
  { key: 'b', limit: second },
]
const groups = groupByTag(charges, ({ limit }) => (limit === first ? 1 : 2))
const allowed = verdictOf(first, 9, 0, 60_000)
const refused = verdictOf(second, 0, 40_000, 40_000)
const hangs = new Promise<never>(() => {})

/** Batchers that answer by the limit that they are asked for. */
function batcher(answer: (limit: string, cost: number) => Promise<Verdict>): Batcher {
  const verdicts = async (asked: readonly Charge[], cost: number) => ({
    verdicts: await Promise.all(asked.map(({ limit }) => answer(limit.name, cost))),
    decidedAt: 1000,
  })
  return { verdicts } as unknown as Batcher
}

const spending = batcher(async limit => (limit === 'first' ? allowed : refused))

describe('a refusal by one slot', () => {
  test('stands although the slot that has spent hangs, before the deadline', async () => {
    const given: (readonly ChargeReceipt[])[] = []
    const startedAt = performance.now()
    const { verdicts } = await consumeApart(
      groups,
      spending,
      batcher(() => hangs),
      1,
      startedAt + 200,
      () => {},
      receipts => {
        given.push(receipts)
        return hangs
      },
    )
    expect(performance.now()).toBeLessThan(startedAt + 200)
    expect(verdicts.map(({ allowed }) => allowed)).toEqual([true, false])
    expect(verdicts[1]).toBe(refused)
    // Nothing is known of what is left there.
    expect(verdicts[0].remaining).toBe(0)
    expect(given).toEqual([[expect.objectContaining({ limit: first, chargedAt: 1000, cost: 1 })]])
  })

  test('shows what is left under the limits that were given back', async () => {
    const standing = verdictOf(first, 10, 0, 0)
    const { verdicts } = await consumeApart(
      groups,
      spending,
      batcher(async () => standing),
      1,
      performance.now() + 1000,
      () => {},
      async () => {},
    )
    expect(verdicts).toEqual([standing, refused])
  })

  test('shows the longest wait, of a slot that was not asked before, too', async () => {
    const longer = verdictOf(second, 0, 59_000, 59_000)
    const { verdicts } = await consumeApart(
      groups,
      batcher(async () => verdictOf(first, 0, 10_000, 10_000)),
      batcher(async (_, cost) => (cost === 0 ? verdictOf(second, 0, 0, 59_000) : longer)),
      1,
      performance.now() + 1000,
      () => {},
      async () => {},
    )
    expect(verdicts.map(({ retryAfterMs }) => retryAfterMs)).toEqual([10_000, 59_000])
  })
})
