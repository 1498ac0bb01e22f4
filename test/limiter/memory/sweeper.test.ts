import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { parseLimit } from '../../../src/limiter/core/limit.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { ManualClock } from '../../../src/testing.js'

/** What a sweep looks at before its time is over: every look at the clock takes a quarter of its budget. */
const LOOKS = 0.25

let clock: ManualClock
let store: MemoryStore
beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['performance'] })
  let now = 0
  jest.spyOn(performance, 'now').mockImplementation(() => {
    now += LOOKS
    return now
  })
  clock = new ManualClock(1_000_000)
  store = new MemoryStore({ clock })
})
afterEach(() => {
  store.close()
  jest.restoreAllMocks()
  jest.useRealTimers()
})

const LASTING = parseLimit({ quota: 1, window: '1h', name: 'lasting' })
const SHORT = parseLimit({ quota: 1, window: '1s', name: 'short' })

function sweep(times: number): void {
  for (let i = 0; i < times; i++) jest.advanceTimersByTime(1000)
}

function use(limit: typeof SHORT, keys: number): void {
  for (let i = 0; i < keys; i++) store.consume([{ key: `${limit.name} ${i}`, limit }], 1)
}

describe('sweeps that end when their time is over', () => {
  test('reach the tables behind one that is large and lives', () => {
    use(LASTING, 1000)
    use(SHORT, 100)
    clock.advance(10_000)
    sweep(20)
    expect(store.size).toBe(1000)
  })

  test('reach every table, wherever it stands', () => {
    const limits = Array.from({ length: 9 }, (_, i) => parseLimit({ quota: 1, window: '1s', name: `short ${i}` }))
    for (const limit of limits) {
      use(parseLimit({ quota: 1, window: '1h', name: `before ${limit.name}` }), 100)
      use(limit, 20)
    }
    clock.advance(10_000)
    sweep(40)
    expect(store.size).toBe(900)
  })

  test('reach ended blocks behind states that live', () => {
    use(LASTING, 1000)
    for (let i = 0; i < 200; i++) store.block([{ key: `blocked ${i}`, limit: LASTING }], 100)
    clock.advance(10_000)
    sweep(20)
    expect(store.size).toBe(1000)
  })
})
