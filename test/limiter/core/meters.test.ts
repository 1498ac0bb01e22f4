import { expect, test } from '@jest/globals'
import { LevelMeter } from '../../../src/limiter/core/meters.js'
import type { Observer } from '../../../src/limiter/core/observer.js'
import { eventually } from '../../support/eventually.js'

/** A meter with an observer of its own, and what was reported to it. */
function open(name = 'jobs') {
  const levels: Parameters<NonNullable<Observer['level']>>[0][] = []
  const observer: Observer = { level: event => void levels.push(event) }
  return { levels, observer, meter: LevelMeter.of(observer, 'semaphore', name)! }
}

test('the first level is reported in the same call', () => {
  const { levels, meter } = open()
  meter.add('inUse', 1)
  expect(levels).toEqual([{ object: 'semaphore', name: 'jobs', inUse: 1 }])
})

test('objects of one kind and name are one sum; the next report comes a second after the last', async () => {
  const { levels, observer, meter } = open()
  const startedAt = performance.now()
  meter.add('inUse', 1)
  LevelMeter.of(observer, 'semaphore', 'jobs')?.add('inUse', 1)
  expect(levels).toHaveLength(1)
  await eventually('the second level', async () => levels.length === 2)
  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(1000)
  expect(levels.map(({ inUse }) => inUse)).toEqual([1, 2])
})

test('objects of other kinds and names have levels of their own', () => {
  const { levels, observer, meter } = open()
  meter.add('inUse', 1)
  LevelMeter.of(observer, 'semaphore', 'mails')?.add('inUse', 1)
  LevelMeter.of(observer, 'concurrency', 'jobs')?.add('inUse', 1)
  expect(levels.map(({ object, name, inUse }) => [object, name, inUse])).toEqual([
    ['semaphore', 'jobs', 1],
    ['semaphore', 'mails', 1],
    ['concurrency', 'jobs', 1],
  ])
})

test('a caller that waits for less than 20 ms is not reported', () => {
  const { levels, meter } = open()
  meter.add('waiting', 1)
  meter.add('waiting', -1)
  meter.add('inUse', 1)
  expect(levels.map(({ waiting, inUse }) => [waiting, inUse])).toEqual([[0, 1]])
})

test('an observer without level gets no meter', () => {
  expect(LevelMeter.of({}, 'semaphore', 'jobs')).toBeUndefined()
})
