import { expect, test } from '@jest/globals'
import { type Observer, observers } from '../../../src/limiter/core/observer.js'
import { warnings } from '../../support/warnings.js'

const warned = warnings()

test('several observers are called in their order, even if one of them throws', () => {
  const told: unknown[] = []
  class Counter implements Observer {
    closed = 0
    breakerClosed() {
      told.push(++this.closed)
    }
  }
  const throwing: Observer = {
    breakerClosed() {
      throw new Error('mine')
    },
  }
  const all = observers(throwing, new Counter(), { breakerClosed: () => told.push('last') }, {})
  all.breakerClosed?.()
  all.breakerClosed?.()
  expect(told).toEqual([1, 'last', 2, 'last'])
  expect(warned.texts).toEqual(new Array(2).fill('observer.breakerClosed threw: mine'))
  expect(Object.keys(all)).toEqual(['breakerClosed'])
})

test('observers() refuses an argument that is not an observer', () => {
  for (const wrong of [undefined, null, 5, () => {}]) {
    expect(() => observers({}, wrong as never)).toThrow('observers: observer')
  }
  expect(() => observers({ held: 5 } as never)).toThrow('observers: observer.held 5: expected a function')
})
