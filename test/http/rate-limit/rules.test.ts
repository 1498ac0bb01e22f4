import { expect, test } from '@jest/globals'
import { Rules } from '../../../src/http/rate-limit/settings.js'
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
  expect(() => new Rules({ deadline: -1 }, [])).toThrow(/deadline: duration -1/)
  const rules = new Rules({}, [])
  for (let i = 0; i < 2; i++) expect(() => rules.rule('100/min')).toThrow(/"100\/min"/)
  for (const policy of [undefined, null, 5, () => '1/1m'])
    expect(() => rules.rule(policy as unknown as string)).toThrow(/policy/)
})
