import { expect, jest, test } from '@jest/globals'
import { Rules } from '../../../src/http/rate-limit/rules.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { ManualClock } from '../../../src/testing.js'

test('a policy that is given again, as text or as a new object, reuses its rule', () => {
  const rules = new Rules({}, [])
  expect(rules.rule('100/1m')).toBe(rules.rule('100/1m'))
  expect(rules.rule({ quota: 5, window: '1m' })).toBe(rules.rule({ quota: 5, window: '1m' }))
  expect(rules.rule('100/1m')).not.toBe(rules.rule('200/1m'))
})

test('rules share one store, even if none was given', async () => {
  for (const store of [undefined, new MemoryStore()]) {
    const rules = new Rules({ store }, [])
    await rules.rule({ quota: 5, window: '1m', name: 'plan' }).limiter.consume('ann', 3)
    expect((await rules.rule({ quota: 9, window: '1m', name: 'plan' }).limiter.consume('ann')).remaining).toBe(5)
  }
})

test('unused rules make room for others, and their counts stay', async () => {
  const store = new MemoryStore({ clock: new ManualClock() })
  const rules = new Rules({ store }, [])
  const first = rules.rule('10/1m')
  await first.limiter.consume('ann', 4)
  for (let quota = 1; quota <= 3000; quota++) rules.rule(`${quota}/1h`)
  const again = rules.rule('10/1m')
  expect(again).not.toBe(first)
  expect((await again.limiter.consume('ann')).remaining).toBe(5)
})

test('a wrong policy throws at once, and again each time', () => {
  expect(() => new Rules({ deadline: -1 }, []).check()).toThrow(/deadline: duration -1/)
  const rules = new Rules({}, [])
  for (let i = 0; i < 2; i++) expect(() => rules.rule('100/min')).toThrow(/"100\/min"/)
  for (const policy of [undefined, null, 5, () => '1/1m'])
    expect(() => rules.rule(policy as unknown as string)).toThrow(/policy/)
})

test('a limiter whose rule is dropped is closed, unless the service has it', async () => {
  const rules = new Rules({ store: new MemoryStore() }, [])
  const [dropped, own] = ['10/1m', '20/1m'].map(policy => rules.rule(policy).limiter)
  expect(rules.limiterFor('20/1m')).toBe(own)
  const closed = jest.spyOn(dropped, 'close')
  const kept = jest.spyOn(own, 'close')
  for (let quota = 1; quota <= 1000; quota++) rules.rule(`${quota}/1h`)
  expect(closed).toHaveBeenCalledTimes(1)
  expect(kept).not.toHaveBeenCalled()
})

test('a frozen policy that was dropped is made anew', () => {
  const rules = new Rules({ store: new MemoryStore() }, [])
  const frozen = Object.freeze({ quota: 7, window: '1m' } as const)
  const first = rules.rule(frozen)
  expect(rules.rule(frozen)).toBe(first)
  for (let quota = 1; quota <= 1000; quota++) rules.rule({ quota, window: '1h' })
  expect(rules.rule(frozen)).not.toBe(first)
})
