import { expect, jest, test } from '@jest/globals'
import { type PolicyInput, parsePolicy } from '../../../src/limiter/core/limit.js'
import { PolicyMemo } from '../../../src/limiter/core/policy-memo.js'

function memo() {
  const make = jest.fn((policy: PolicyInput) => parsePolicy(policy))
  return { make, memo: new PolicyMemo(make) }
}

test('a policy is parsed once: the same text, the same object, or an object with the same content', () => {
  const { make, memo: known } = memo()
  const object = { quota: 5, window: '1m' }
  const frozen = Object.freeze([Object.freeze({ quota: 5, window: '1s' }), '9/1h'])
  for (let i = 0; i < 3; i++) {
    expect(known.of('5/1m')).toBe(known.of('5/1m'))
    expect(known.of(object)).toBe(known.of({ ...object }))
    expect(known.of(frozen)).toBe(known.of([...frozen]))
  }
  expect(make).toHaveBeenCalledTimes(3)
})

test('a frozen object is recognised without reading its content', () => {
  const { memo: known } = memo()
  const looked = jest.fn()
  const frozen = Object.freeze(
    Object.defineProperty({ quota: 5, window: '1m' }, 'burst', { enumerable: true, get: looked as () => undefined }),
  )
  known.of(frozen)
  looked.mockClear()
  known.of(frozen)
  expect(looked).not.toHaveBeenCalled()
})

test('a changed object is parsed again, also in a frozen list', () => {
  const { memo: known } = memo()
  const limit = { quota: 5, window: '1m' }
  for (const policy of [limit, Object.freeze([limit])]) {
    limit.quota = 5
    expect(known.of(policy)[0].quota).toBe(5)
    limit.quota = 7
    expect(known.of(policy)[0].quota).toBe(7)
  }
})

test('a text is not mistaken for an object that is written like it', () => {
  const { memo: known } = memo()
  known.of({ quota: 5, window: '1m' })
  expect(() => known.of('{"quota":5,"window":"1m"}')).toThrow(/expected "<quota>\/<duration>"/)
})

test('a wrong policy throws each time', () => {
  const { memo: known } = memo()
  for (const policy of [undefined, null, 5, 'often', {}, [], { quota: 5n, window: '1m' }, () => '5/1m']) {
    for (let i = 0; i < 2; i++) expect(() => known.of(policy as string)).toThrow(/policy|limit/)
  }
})

test('drops the oldest of many policies', () => {
  const { make, memo: known } = memo()
  for (let quota = 1; quota <= 1001; quota++) known.of(`${quota}/1m`)
  known.of('1001/1m')
  expect(make).toHaveBeenCalledTimes(1001)
  known.of('1/1m')
  expect(make).toHaveBeenCalledTimes(1002)
})
