import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { TimeoutError } from '../../src/limiter/core/errors.js'
import { Account, type CheckedBudget, Places } from '../../src/outgoing/account.js'
import type { Call } from '../../src/outgoing/call.js'
import type { Departure } from '../../src/outgoing/departure.js'
import { CallLine } from '../../src/outgoing/line.js'
import { ofCases } from '../support/cases.js'
import { PlainBudgets } from '../support/plain-budgets.js'
import { randomFrom } from '../support/random.js'

const FOR_EVER = { timeoutMs: Number.POSITIVE_INFINITY, signal: undefined }
const AT_ONCE = { timeoutMs: 0, signal: undefined }
const turn = () => new Promise(resolve => setImmediate(resolve))

function accountOf(rate: number, intervalMs: number, name = 'calls'): Account {
  const budget: CheckedBudget = { rate, intervalMs, name, id: name, cost: undefined, settle: undefined }
  return new Account('p', budget)
}

let calls = 0
const NOT_PAUSED = { kind: 'p', partners: ['p'], places: [], priority: 0, turnAt: 0, pauseMs: () => 0 }

function callOf(account: Account, units = 1, priority = 0): Call {
  return { ...NOT_PAUSED, order: calls++, charges: [{ account, units }], priority }
}

describe('a line of calls', () => {
  beforeEach(() => void jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] }))
  afterEach(() => void jest.useRealTimers())

  test('grants the same calls at the same moments as lists that are searched each time, and tells the same waits', async () => {
    for (let round = 0; round < ofCases(60); round++) {
      const random = randomFrom(`line of calls ${round}`)
      const budgets = Array.from({ length: random.integer(1, 3) }, () => ({
        rate: random.integer(1, 9),
        intervalMs: random.pick([100, 1000, 3000]),
      }))
      const permits = random.integer(1, 4)
      const plain = new PlainBudgets(budgets, permits, () => performance.now())
      const accounts = budgets.map(({ rate, intervalMs }, index) => accountOf(rate, intervalMs, String(index)))
      const places = new Places('p', permits)
      const tested = new CallLine()
      const departures = new Map<number, Departure>()
      const calls = new Map<number, Call>()
      const endings = new Map<number, AbortController>()
      const granted: number[] = []
      for (let step = 0, id = 0; step < 120; step++) {
        const inFlight = [...departures.keys()]
        const chosen = inFlight.length > 0 ? random.pick(inFlight) : undefined
        const what = random.integer(0, 9)
        if (what < 4) {
          const own = id++
          const [from, hasPlace] = [random.integer(0, budgets.length - 1), random.integer(0, 2) === 0]
          const charges = accounts
            .slice(from)
            .map((account, index) => ({ account, units: random.integer(0, budgets[from + index].rate) }))
          const call = {
            ...NOT_PAUSED,
            order: own,
            kind: `${from} ${hasPlace}`,
            // Of each budget one: the last takes part in each call.
            partners: budgets.slice(from).map((_, index) => `p${from + index}`),
            charges,
            places: hasPlace ? [places] : [],
            priority: random.pick([0, 0, 0, 1, -8, 8]),
          }
          const ending = new AbortController()
          endings.set(own, ending)
          calls.set(own, call)
          const costs = new Map(charges.map(({ units }, index) => [from + index, units]))
          plain.join({ id: own, costs, priority: call.priority, hasPlace })
          tested.take(call, { ...FOR_EVER, signal: ending.signal }).then(
            departure => {
              departures.set(own, departure)
              granted.push(own)
            },
            () => {},
          )
        } else if (what < 6 && chosen !== undefined) {
          departures.get(chosen)?.answered()
          plain.answer(chosen)
          if (random.integer(0, 1) === 0) {
            const { charges } = calls.get(chosen) as Call
            const index = random.integer(0, charges.length - 1)
            const { account, units } = charges[index]
            const actual = random.integer(0, 2 * units)
            departures.get(chosen)?.settle(index, actual)
            plain.settle(chosen, accounts.indexOf(account), actual)
          }
          departures.delete(chosen)
        } else if (what === 6 && chosen !== undefined) {
          departures.get(chosen)?.unused()
          plain.drop(chosen)
          departures.delete(chosen)
        } else if (what === 7 && plain.waiting.length > 0) {
          const { id: leaving } = random.pick(plain.waiting)
          endings.get(leaving)?.abort()
          plain.leave(leaving)
        } else {
          for (let ms = random.integer(1, 400); ms > 0; ms--) {
            jest.advanceTimersByTime(1)
            plain.pass()
          }
        }
        await turn()
        expect(granted).toEqual(plain.granted)
        for (const [index, account] of accounts.entries()) {
          account.update(performance.now())
          expect(account.used).toBe(plain.used(index))
          const waitMs = account.waitMs(performance.now(), account.waiting(0), 1)
          expect(waitMs).toBe(plain.waitMs(index, 1))
        }
      }
      for (const ending of endings.values()) ending.abort()
      await turn()
    }
  }, 120_000)

  test('a wait that would be longer than the timeout is refused at once, and names the budget', async () => {
    const [requests, tokens] = [accountOf(10, 1000), accountOf(100, 10_000, 'tokens')]
    const line = new CallLine()
    const call = (units: number): Call => ({
      ...NOT_PAUSED,
      order: units,
      charges: [
        { account: requests, units: 1 },
        { account: tokens, units },
      ],
    })
    ;(await line.take(call(80), FOR_EVER)).answered()
    const refused = line.take(call(30), { ...FOR_EVER, timeoutMs: 9000 })
    await expect(refused).rejects.toThrow('p: budget "tokens": the call could leave in 10000 ms')
    await expect(refused).rejects.toBeInstanceOf(TimeoutError)
    ;(await line.take(call(20), AT_ONCE)).answered()
  })

  test('a call that others of a higher priority pass for as long as it may wait goes next', async () => {
    const account = accountOf(1, 100)
    const line = new CallLine()
    const order: string[] = []
    const take = (name: string, priority: number) =>
      line.take(callOf(account, 1, priority), { ...FOR_EVER, timeoutMs: 1000 }).then(departure => {
        order.push(name)
        departure.answered()
      })
    const low = take('first', 0).then(() => take('low', 0))
    await turn()
    for (let passed = 0; passed < 30 && !order.includes('low'); passed++) {
      void take('high', 1).catch(() => {})
      for (let ms = 0; ms < 100; ms++) {
        jest.advanceTimersByTime(1)
        await turn()
      }
    }
    await low
    expect(order.indexOf('low')).toBeGreaterThanOrEqual(9)
    expect(order.indexOf('low')).toBeLessThanOrEqual(12)
  })

  test('the units of a stream that is longer than any answer may take count until an interval after it is settled', async () => {
    const account = accountOf(10, 1000)
    const line = new CallLine()
    const stream = await line.take(callOf(account, 10), FOR_EVER)
    jest.advanceTimersByTime(600)
    stream.settle(0, 8)
    jest.advanceTimersByTime(999)
    account.update(performance.now())
    expect(account.used).toBe(8)
    jest.advanceTimersByTime(2)
    account.update(performance.now())
    expect(account.used).toBe(0)
  })

  test('a call waits no longer than it may because a call of a higher priority has left to another partner', async () => {
    const line = new CallLine()
    const places = new Places('p', 1)
    const call = (): Call => ({ ...NOT_PAUSED, order: calls++, charges: [], places: [places] })
    await line.take(call(), FOR_EVER)
    const low = line.take(call(), { ...FOR_EVER, timeoutMs: 1000 })
    const refused = expect(low).rejects.toBeInstanceOf(TimeoutError)
    await line.take({ ...callOf(accountOf(1, 100), 1, 1), kind: 'other', partners: ['other'] }, FOR_EVER)
    await jest.advanceTimersByTimeAsync(1001)
    await refused
  })

  test('calls that give up behind a first one that waits leave no memory, and the line goes on', async () => {
    const account = accountOf(1, 1000)
    const line = new CallLine()
    const take = (signal?: AbortSignal) => line.take(callOf(account), { ...FOR_EVER, signal })
    const first = await take()
    const second = take()
    for (let i = 0; i < 10_000; i++) {
      const ending = new AbortController()
      const gone = take(ending.signal)
      ending.abort()
      await expect(gone).rejects.toBe(ending.signal.reason)
    }
    expect(account.waiting(0)).toBe(1)
    const third = take()
    first.answered()
    jest.advanceTimersByTime(1001)
    ;(await second).answered()
    jest.advanceTimersByTime(1001)
    ;(await third).answered()
    jest.advanceTimersByTime(1001)
    account.update(performance.now())
    expect([account.used, account.waiting(0)]).toEqual([0, 0])
  })
})

test('a call is not held up by calls to other partners, nor looked at for them', async () => {
  const line = new CallLine()
  let looks = 0
  const ending = new AbortController()
  const take = (partners: string[], account: Account, priority = 0) =>
    line.take(
      {
        ...callOf(account, 1, priority),
        kind: partners.join(),
        partners,
        pauseMs: () => {
          looks++
          return 0
        },
      },
      { timeoutMs: 100_000, signal: ending.signal },
    )
  const accounts = Array.from({ length: 100 }, () => accountOf(1, 10_000))
  const waiting: Promise<unknown>[] = []
  for (const [index, account] of accounts.entries()) {
    await take([`p${index}`], account)
    waiting.push(take([`p${index}`], account))
  }
  looks = 0
  for (const [index, account] of accounts.entries()) waiting.push(take([`p${index}`], account))
  expect(looks).toBe(100)
  // Both wait in one line now.
  looks = 0
  waiting.push(take(['p1', 'p2'], accounts[1]))
  expect(looks).toBe(3)
  ending.abort()
  await Promise.allSettled(waiting)
  line.close()
})

test('a call that begins to wait costs the same behind 4000 others as behind 200', async () => {
  /** Of 4000 calls, in rounds: the kernel may count in whole ticks of 4 ms. */
  const cpuUs = async (waiting: number) => {
    let sum = 0
    for (let left = 4000; left > 0; left -= waiting) {
      const account = accountOf(waiting, 2 ** 30)
      const line = new CallLine()
      for (let i = 0; i < waiting; i++) (await line.take(callOf(account), FOR_EVER)).answered()
      const ending = new AbortController()
      const from = process.cpuUsage()
      const all = Array.from({ length: waiting }, () =>
        line.take(callOf(account), { ...FOR_EVER, signal: ending.signal }),
      )
      ending.abort()
      await Promise.allSettled(all)
      sum += process.cpuUsage(from).user
      line.close()
    }
    return sum
  }
  await cpuUs(1000)
  const few = await cpuUs(200)
  // Sorting the units made it 30 times as long.
  expect(await cpuUs(4000)).toBeLessThan(8 * few)
}, 60_000)
