import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { spend } from '../../../src/limiter/changes/changes.js'
import { parseLimit, parsePolicy } from '../../../src/limiter/core/limit.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { MemoryTable } from '../../../src/limiter/memory/memory-table.js'
import { Sweeper } from '../../../src/limiter/memory/sweeper.js'
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

const START = 1_700_000_000_000
const [LIMIT] = parsePolicy('5/1s')
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

describe('tables', () => {
  test('that come and go, a name for each tenant, leave no more behind than hold something', () => {
    let nowMs = START
    const tables = new Map<string, MemoryTable>()
    const sweeper = new Sweeper(tables, 100, () => nowMs)
    const most: number[] = []
    for (let i = 0; i < 4000; i++) {
      sweeper.makingTable()
      const table = new MemoryTable(`tenant ${i}`, LIMIT.algorithm)
      tables.set(`tenant ${i}`, table)
      sweeper.insert(table, 'k', spend(LIMIT, undefined, nowMs, 1)!, LIMIT)
      nowMs += LIMIT.windowMs
      if (i >= 2000) most.push(tables.size)
    }
    sweeper.close()
    expect(Math.max(...most)).toBeLessThan(10)
  })

  test('that were only looked at go, too', () => {
    const tables = new Map<string, MemoryTable>()
    const sweeper = new Sweeper(tables, 100, () => START)
    for (let i = 0; i < 1000; i++) {
      sweeper.makingTable()
      tables.set(`tenant ${i}`, new MemoryTable(`tenant ${i}`, LIMIT.algorithm))
    }
    sweeper.close()
    expect(tables.size).toBeLessThan(5)
  })

  test('that are empty hide no key: a full store still makes room', () => {
    const tables = new Map<string, MemoryTable>()
    const sweeper = new Sweeper(tables, 1, () => START)
    for (let i = 0; i < 600; i++) tables.set(`empty ${i}`, new MemoryTable(`empty ${i}`, LIMIT.algorithm))
    for (const name of ['one', 'other']) {
      const table = new MemoryTable(name, LIMIT.algorithm)
      tables.set(name, table)
      sweeper.insert(table, 'k', spend(LIMIT, undefined, START, 1)!, LIMIT)
    }
    expect(sweeper.size).toBe(1)
    sweeper.close()
  })

  test('of a full store are looked at in turn: a new key copies no list of them', () => {
    const tables = new Map<string, MemoryTable>()
    const sweeper = new Sweeper(tables, 2000, () => START)
    for (let i = 0; i < 2000; i++) {
      const table = new MemoryTable(`tenant ${i}`, LIMIT.algorithm)
      tables.set(`tenant ${i}`, table)
      sweeper.insert(table, 'k', spend(LIMIT, undefined, START, 1)!, LIMIT)
    }
    let looks = 0
    for (const table of tables.values()) {
      const advance = table.advance.bind(table)
      table.advance = () => {
        looks++
        return advance()
      }
    }
    sweeper.insert(tables.get('tenant 0')!, 'another', spend(LIMIT, undefined, START, 1)!, LIMIT)
    expect(sweeper.size).toBe(2000)
    expect(looks).toBeLessThan(50)
    sweeper.close()
  })

  test('keep one limit for all keys although each limiter has its own', () => {
    const [[one], [other], [slower]] = ['5/1m', '5/1m', '5/2m'].map(text => parsePolicy(text))
    const table = new MemoryTable('default', one.algorithm)
    table.insert('a', spend(one, undefined, START, 1)!, one)
    table.insert('b', spend(other, undefined, START, 1)!, other)
    expect(table.limitOf(table.slotOf('b')!)).toBe(one)
    table.insert('c', spend(slower, undefined, START, 1)!, slower)
    expect(table.limitOf(table.slotOf('c')!).windowMs).toBe(120_000)
  })
})
