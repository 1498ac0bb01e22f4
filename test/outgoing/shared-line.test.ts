import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { Account, Places } from '../../src/outgoing/account.js'
import type { Call } from '../../src/outgoing/call.js'
import { SharedLine } from '../../src/outgoing/shared-line.js'
import { guardRedis } from '../../src/redis/guarded-redis.js'
import { monitor } from '../support/monitor.js'
import { testRedis } from '../support/test-redis.js'

const FOR_EVER = { timeoutMs: Number.POSITIVE_INFINITY, signal: undefined }
const redis = testRedis()

function lineOf(): SharedLine {
  const client = redis.client()
  return new SharedLine(client, guardRedis(client, 5000, {}, { name: 'politeFetch', meanwhile: 'alone' }))
}

function accountOf(name: string, partner = 'p', rate = 1000): Account {
  const budget = { rate, intervalMs: 60_000, name, id: name, cost: undefined, settle: undefined }
  return new Account(partner, budget)
}

let order = 0
function callOf(...accounts: readonly Account[]): Call {
  const charges = accounts.map(account => ({ account, units: 1 }))
  const kind = accounts.map(({ subject }) => subject).join()
  return {
    kind,
    partners: ['p'],
    charges,
    places: [],
    priority: 0,
    order: order++,
    turnAt: performance.now(),
    pauseMs: () => 0,
  }
}

describe('what a process sends to Redis', () => {
  /** The keys that each ask names: two for each budget. */
  let asks: string[][]
  let end: () => void
  let told = () => {}
  beforeEach(async () => {
    await redis.client().flushall()
    asks = []
    end = await monitor(redis.port, ({ args: [name, , keys, ...more], byScript }) => {
      if (/^echo$/i.test(name)) told()
      if (!byScript && /^evalsha$/i.test(name)) asks.push(more.slice(3, Number(keys)))
    })
  })
  afterEach(() => end())

  /** Until the server has reported what it was sent before. */
  const settled = async (line: SharedLine) => {
    // What has just been answered is sent at the end of this turn.
    for (let i = 0; i < 3; i++) await new Promise(resolve => setImmediate(resolve))
    const seen = new Promise<void>(resolve => {
      told = resolve
    })
    await (line.client as ReturnType<typeof redis.client>).echo('all')
    await seen
  }

  test('a budget is named once in an ask, although its partner was forgotten and is called again', async () => {
    const line = lineOf()
    for (let round = 0; round < 5; round++) await line.take(callOf(accountOf('tokens')), FOR_EVER)
    await settled(line)
    expect(asks.map(({ length }) => length)).toEqual(asks.map(() => 2))
  })

  test('calls that leave together are one script call, however many budgets, places and partners they take from, and so are their answers', async () => {
    const line = lineOf()
    await line.take(callOf(accountOf('clock')), FOR_EVER)
    await settled(line)
    asks.length = 0
    const accounts = Array.from({ length: 16 }, (_, i) => accountOf(`b${i}`, i < 8 ? 'wide' : 'narrow'))
    const places = [new Places('wide', 100), new Places('narrow', 100)]
    const calls = Array.from({ length: 50 }, () => ({ ...callOf(...accounts), places }))
    const departures = await Promise.all(calls.map(call => line.take(call, FOR_EVER)))
    await settled(line)
    expect(asks).toHaveLength(1)
    for (const departure of departures.slice(0, 5)) departure.answered()
    await settled(line)
    expect(asks).toHaveLength(2)
    for (const departure of departures) departure.unused()
    // Nothing of this is seen by the next test.
    await settled(line)
  })

  test('a call to a partner with one budget is two script calls with its answer', async () => {
    const line = lineOf()
    const account = accountOf('calls')
    ;(await line.take(callOf(account), FOR_EVER)).answered()
    await settled(line)
    asks.length = 0
    ;(await line.take(callOf(account), FOR_EVER)).answered()
    await settled(line)
    expect(asks).toHaveLength(2)
  })

  test('an ask names the budgets that were used last, however many there were', async () => {
    const line = lineOf()
    for (let round = 0; round < 60; round++) await line.take(callOf(accountOf(`b${round}`)), FOR_EVER)
    await settled(line)
    const named = (asks.at(-1) ?? []).map(key => Number(/:b(\d+)$/.exec(key)?.[1])).filter(Number.isFinite)
    expect(named.sort((a, b) => a - b)).toEqual(Array.from({ length: 24 }, (_, i) => 36 + i))
  })
})
