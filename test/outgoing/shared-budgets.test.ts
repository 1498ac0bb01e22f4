import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { Account, Places } from '../../src/outgoing/account.js'
import type { Call } from '../../src/outgoing/call.js'
import type { Departure } from '../../src/outgoing/departure.js'
import { SharedLine } from '../../src/outgoing/shared-line.js'
import { guardRedis } from '../../src/redis/guarded-redis.js'
import { ofCases } from '../support/cases.js'
import { PlainBudgets } from '../support/plain-budgets.js'
import { randomFrom } from '../support/random.js'
import { testRedis } from '../support/test-redis.js'

/** A whole number of everything to which ends of units are rounded. */
const BEGIN_AT = 1_800_000_000_000
const PROCESSES = [0, 1, 2]

const redis = testRedis()
/** When timers ring. */
const rings = new Set<number>()
beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] })
  rings.clear()
  const { setTimeout } = globalThis
  globalThis.setTimeout = ((ring: () => void, ms = 0) => {
    rings.add(performance.now() + ms)
    return setTimeout(ring, ms)
  }) as typeof setTimeout
})
afterEach(() => void jest.useRealTimers())
const serverNow = () => BEGIN_AT + performance.now()

/** The line of one process, for whose scripts the server's clock shows the test's time. */
function processOf(budgets: PlainBudgets['budgets'], permits: number) {
  const client = redis.client()
  const evalsha = client.evalsha.bind(client) as (...args: unknown[]) => Promise<unknown>
  const state = { isDead: false, asks: 0 }
  client.evalsha = ((sha: string, keys: number, ...args: unknown[]) => {
    args[keys] = String(serverNow())
    if (state.isDead) return new Promise(() => {})
    state.asks++
    return evalsha(sha, keys, ...args).finally(() => state.asks--)
  }) as typeof client.evalsha
  const accounts = budgets.map(({ rate, intervalMs }, index) => {
    const partner = index === 0 ? 'wide' : 'narrow'
    return new Account(partner, {
      rate,
      intervalMs,
      name: `${index}`,
      id: `${index}`,
      cost: undefined,
      settle: undefined,
    })
  })
  const line = new SharedLine(client, guardRedis(client, 5000, {}, { name: 'politeFetch', meanwhile: 'alone' }))
  return { client, line, accounts, places: new Places('wide', permits), state }
}

/** Redis has answered what was sent before. */
async function turn(processes: ReadonlyArray<ReturnType<typeof processOf>>): Promise<void> {
  await Promise.all(processes.map(({ client }) => client.ping()))
  await new Promise(resolve => setImmediate(resolve))
}

test('several processes let calls leave over Redis only, and as soon as, lists allow it that are searched each time', async () => {
  for (let round = 0; round < ofCases(60); round++) {
    await redis.client().flushall()
    const random = randomFrom(`shared budgets ${round}`)
    const budgets = Array.from({ length: random.integer(1, 3) }, () => ({
      rate: random.integer(1, 9),
      intervalMs: random.pick([100, 1000, 3000]),
    }))
    const permits = random.integer(1, 4)
    const plain = new PlainBudgets(budgets, permits, serverNow, true)
    const processes = PROCESSES.map(() => processOf(budgets, permits))
    const granted: number[] = []
    const departures = new Map<number, Departure>()
    const permittedAt = new Map<number, number>()
    const calls = new Map<number, Call>()
    const endings = new Map<number, AbortController>()
    const homes = new Map<number, number>()
    const alive = new Set(PROCESSES)
    await Promise.all(processes.map(({ client }) => client.ping()))

    /** Until all processes know what each of them has told. */
    const settled = async () => {
      for (let quiet = 0, turns = 0; quiet < 3 && turns < 2000; turns++) {
        await turn(processes)
        // The answers to two processes may arrive in another order than they were given.
        for (let open = granted.splice(0); open.length > 0; ) {
          // One ask looks at each call that waits once, whoever has left before.
          const may = plain.mayLeave()
          const left = open.filter(id => may.includes(id))
          expect([round, open, left]).not.toEqual([round, open, []])
          for (const id of left) plain.left(id)
          open = open.filter(id => !left.includes(id))
        }
        quiet = processes.every(({ state }) => state.asks === 0) && plain.mayLeave().length === 0 ? quiet + 1 : 0
      }
      expect([round, plain.mayLeave()]).toEqual([round, []])
    }
    const join = (id: number) => {
      const home = random.pick([...alive])
      const { line, accounts, places } = processes[home]
      const [from, hasPlace] = [random.integer(0, budgets.length - 1), random.integer(0, 2) === 0]
      const charges = accounts
        .slice(from)
        .map((account, index) => ({ account, units: random.integer(0, budgets[from + index].rate) }))
      const call: Call = {
        kind: `${from} ${hasPlace}`,
        partners: ['wide'],
        charges,
        places: hasPlace ? [places] : [],
        priority: random.pick([0, 0, 0, 1, -8, 8]),
        order: id,
        turnAt: performance.now(),
        pauseMs: () => 0,
      }
      const ending = new AbortController()
      endings.set(id, ending)
      calls.set(id, call)
      homes.set(id, home)
      const costs = new Map(charges.map(({ units }, index) => [from + index, units]))
      plain.join({ id, costs, priority: call.priority, hasPlace, process: home })
      line.take(call, { timeoutMs: Number.POSITIVE_INFINITY, signal: ending.signal }).then(
        departure => {
          if (!alive.has(home)) return
          departures.set(id, departure)
          permittedAt.set(id, performance.now())
          granted.push(id)
        },
        () => {},
      )
    }
    /** Time goes on, from each moment at which something ends or rings to the next: no process sleeps over one. */
    const goOn = async (ms: number) => {
      const until = performance.now() + ms
      while (performance.now() < until) {
        for (const at of rings) if (at <= performance.now()) rings.delete(at)
        const next = Math.min(until, plain.nextEnd() - BEGIN_AT, ...rings)
        jest.advanceTimersByTime(Math.max(1, next - performance.now()))
        plain.pass()
        await settled()
      }
    }
    const step = async (id: number) => {
      const inFlight = [...departures.keys()]
      const chosen = inFlight.length > 0 ? random.pick(inFlight) : undefined
      const what = random.integer(0, 9)
      if (what < 4) join(id)
      else if (what < 6 && chosen !== undefined) {
        const { charges } = calls.get(chosen) as Call
        departures.get(chosen)?.answered()
        plain.answer(chosen)
        await settled()
        if (random.integer(0, 1) === 0) {
          const index = random.integer(0, charges.length - 1)
          const actual = random.integer(0, 2 * charges[index].units)
          departures.get(chosen)?.settle(index, actual)
          plain.settle(chosen, budgets.length - charges.length + index, actual)
        }
        departures.delete(chosen)
      } else if (what === 6 && chosen !== undefined) {
        departures.get(chosen)?.unused()
        plain.drop(chosen)
        departures.delete(chosen)
      } else if (what === 8 && chosen !== undefined && permittedAt.has(chosen)) {
        // A permission lapses after the shortest interval.
        const { charges } = calls.get(chosen) as Call
        const lapsesMs = Math.min(5000, ...charges.map(({ account }) => account.budget.intervalMs))
        const isLate = performance.now() >= (permittedAt.get(chosen) as number) + lapsesMs
        permittedAt.delete(chosen)
        expect(departures.get(chosen)?.sends()).toBe(!isLate)
        if (isLate) {
          plain.drop(chosen)
          departures.delete(chosen)
        } else plain.send(chosen)
      } else if (what === 7 && plain.waiting.length > 0) {
        const { id: leaving } = random.pick(plain.waiting)
        endings.get(leaving)?.abort()
        plain.leave(leaving)
      } else await goOn(random.integer(1, 400))
      await settled()
      // Calls of one ms have no order over processes.
      await goOn(1)
    }

    for (let id = 0; id < 60; id++) await step(id)
    // One process is killed: its calls that wait are in nobody's way after two asks, and its units end by themselves.
    for (const [id, departure] of departures) if (homes.get(id) === 0) departure.answered()
    for (const id of [...plain.inside]) if (homes.get(id) === 0) plain.answer(id)
    await settled()
    processes[0].state.isDead = true
    alive.delete(0)
    plain.kill(0)
    for (let quiet = 0; quiet < 40; quiet = plain.waiting.length > 0 ? 0 : quiet + 1) {
      for (const departure of departures.values()) departure.answered()
      for (const id of departures.keys()) plain.answer(id)
      departures.clear()
      jest.advanceTimersByTime(250)
      plain.pass()
      for (let turns = 0; turns < 4; turns++) await turn(processes)
      for (const id of granted.splice(0)) plain.left(id)
    }
    await settled()
    expect(plain.waiting).toEqual([])
    for (let id = 60; id < 90; id++) await step(id)
    for (const ending of endings.values()) ending.abort()
    for (const departure of departures.values()) departure.unused()
    for (const { client, line } of processes) {
      line.close()
      client.disconnect()
    }
  }
}, 120_000)

/** A call of one unit, or of so many. */
function callOf(account: Account, order: number, priority: number, units = 1): Call {
  const charges = [{ account, units }]
  const turnAt = performance.now()
  return {
    kind: 'wide',
    partners: ['wide'],
    charges,
    places: [],
    priority,
    order,
    turnAt,
    pauseMs: () => 0,
  }
}
const pass = async (processes: ReadonlyArray<ReturnType<typeof processOf>>, ms: number) => {
  for (let passed = 0; passed < ms; passed++) {
    jest.advanceTimersByTime(1)
    for (let turns = 0; turns < 4; turns++) await turn(processes)
  }
}
const end = (processes: ReadonlyArray<ReturnType<typeof processOf>>) => {
  for (const { client, line } of processes) {
    line.close()
    client.disconnect()
  }
}

describe('priorities', () => {
  test('give a process no more of a budget than its calls would have without them', async () => {
    await redis.client().flushall()
    const processes = PROCESSES.map(() => processOf([{ rate: 1, intervalMs: 20 }], 1))
    await Promise.all(processes.map(({ client }) => client.ping()))
    const random = randomFrom('shares')
    const [came, left]: [number[], number[]] = [[], []]
    const ending = new AbortController()
    const served: number[] = []
    for (let order = 0; order < 120; order++) {
      const home = random.integer(0, 2)
      const { line, accounts } = processes[home]
      came.push(home)
      const priority = home === 0 ? random.integer(-8, 8) : 0
      const patience = { timeoutMs: Number.POSITIVE_INFINITY, signal: ending.signal }
      line.take(callOf(accounts[0], order, priority), patience).then(
        departure => {
          left.push(home)
          if (home === 0) served.push(priority)
          departure.answered()
        },
        () => {},
      )
      await pass(processes, 5)
    }
    await pass(processes, 400)
    // Its own calls were served by priority.
    expect(served.slice(2).every(priority => priority > 0)).toBe(true)
    expect(left.length).toBeGreaterThan(35)
    expect(left).toEqual(came.slice(0, left.length))
    ending.abort()
    end(processes)
  }, 60_000)

  test('a call that was passed by two at once has the turn of the last one', async () => {
    await redis.client().flushall()
    const processes = PROCESSES.slice(0, 2).map(() => processOf([{ rate: 2, intervalMs: 20 }], 1))
    await Promise.all(processes.map(({ client }) => client.ping()))
    const left: string[] = []
    let order = 0
    const take = async (home: number, name: string, priority: number, units: number) => {
      const { line, accounts } = processes[home]
      const call = callOf(accounts[0], order++, priority, units)
      void line.take(call, { timeoutMs: Number.POSITIVE_INFINITY, signal: undefined }).then(() => left.push(name))
      await pass(processes, 1)
    }
    await take(0, 'first', 0, 2)
    await take(0, 'low', -8, 1)
    await take(0, 'high', 0, 1)
    await take(1, 'other', 0, 2)
    await take(0, 'also high', 0, 1)
    await pass(processes, 100)
    expect(left).toEqual(['first', 'high', 'also high', 'other', 'low'])
    end(processes)
  }, 30_000)

  test('pass no call for longer than it may wait, over Redis too', async () => {
    await redis.client().flushall()
    const processes = PROCESSES.slice(0, 2).map(() => processOf([{ rate: 1, intervalMs: 20 }], 1))
    await Promise.all(processes.map(({ client }) => client.ping()))
    let order = 0
    const left: { readonly home: number; readonly order: number; readonly at: number }[] = []
    const take = (home: number, priority: number) => {
      const own = order++
      const { line, accounts } = processes[home]
      void line.take(callOf(accounts[0], own, priority), { timeoutMs: 190, signal: undefined }).then(
        departure => {
          left.push({ home, order: own, at: performance.now() })
          departure.answered()
        },
        () => {},
      )
      return own
    }
    take(0, 0)
    await pass(processes, 1)
    const overdueAt = performance.now() + 190
    const low = take(0, 0)
    for (let n = 0; n < 25; n++) {
      take(0, 1)
      take(0, 1)
      take(1, 0)
      await pass(processes, 24)
    }
    expect(left.filter(({ home, at }) => home === 0 && at < overdueAt).length).toBeGreaterThan(4)
    expect(left.find(({ home, at }) => home === 0 && at > overdueAt)?.order).toBe(low)
    end(processes)
  }, 60_000)
})

describe('units that count for longer than Redis was told', () => {
  /** Takes one unit of a budget of one, in a process; notes when the call may leave. */
  const take = async ({ line, accounts }: ReturnType<typeof processOf>, left: number[] = []) => {
    const departure = await line.take(callOf(accounts[0], 0, 0), { timeoutMs: 60_000, signal: undefined })
    left.push(serverNow() - BEGIN_AT)
    return departure
  }
  let processes: ReturnType<typeof processOf>[]
  beforeEach(async () => {
    await redis.client().flushall()
    processes = [0, 1].map(() => processOf([{ rate: 1, intervalMs: 1000 }], 1))
    await Promise.all(processes.map(({ client }) => client.ping()))
  })
  afterEach(() => end(processes))

  test('because the call was sent long after its permission are told before they would end there', async () => {
    const taking = take(processes[0])
    await pass(processes, 1)
    const departure = await taking
    await pass(processes, 900)
    const sentAt = serverNow() - BEGIN_AT
    expect(departure.sends()).toBe(true)
    const left: number[] = []
    void take(processes[1], left)
    await pass(processes, 1300)
    expect(left).toEqual([sentAt + 1000 + 200])
  }, 30_000)

  test.each([undefined, 1])(
    'because what it cost, %p, is known after they had ended there are told at once',
    async units => {
      const taking = take(processes[0])
      await pass(processes, 1)
      const departure = await taking
      await pass(processes, 1300)
      const settledAt = serverNow() - BEGIN_AT
      departure.settle(0, units)
      const left: number[] = []
      await pass(processes, 1)
      void take(processes[1], left)
      await pass(processes, 1100)
      expect(left).toEqual([settledAt + 1000])
    },
    30_000,
  )
})

test('a call is asked for again, although the time for that came while Redis was silent', async () => {
  await redis.client().flushall()
  const silent = processOf([{ rate: 1, intervalMs: 5100 }], 1)
  const { client, line, accounts, state } = silent
  const forEver = { timeoutMs: Number.POSITIVE_INFINITY, signal: undefined }
  const taking = line.take(callOf(accounts[0], 0, 0), forEver)
  await pass([silent], 1)
  const departure = await taking
  const pauseEndsAt = performance.now() + 500
  const paused = { ...callOf(accounts[0], 1, 0), pauseMs: () => Math.max(0, pauseEndsAt - performance.now()) }
  let hasLeft = false
  void line.take(paused, forEver).then(() => {
    hasLeft = true
  })
  await pass([silent], 1)
  // Redis is told of the answer, and is silent. The pause ends before the process gives up, the unit shortly after that.
  state.isDead = true
  departure.answered()
  await turn([silent])
  jest.advanceTimersByTime(5000)
  await turn([silent])
  expect([line.guarded.failing, hasLeft]).toEqual([true, false])
  state.isDead = false
  // Redis answers something else, so no call leaves without it any more.
  await line.guarded.hold(client.ping())
  expect(line.guarded.failing).toBe(false)
  await pass([silent], 300)
  expect(hasLeft).toBe(true)
  end([silent])
}, 30_000)
