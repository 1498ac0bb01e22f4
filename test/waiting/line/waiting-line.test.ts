import { describe, expect, test } from '@jest/globals'
import { ofCases } from '../../support/cases.js'
import { randomFrom } from '../../support/random.js'
import { type Faults, Simulation } from './simulation.js'

const NO_FAULTS: Faults = { lost: 0, late: 0, doubled: 0 }
const INTERVAL_MS = 1000

interface Waiter {
  readonly who: string
  readonly process: number
  readonly control: AbortController
  state: 'waits' | 'granted' | 'rejected' | 'gone'
}

/** What may happen beside joins: how often each in a hundred steps. */
interface Script {
  readonly faults: Faults
  readonly aborts: number
  readonly timeouts: number
  readonly pauses: number
  readonly crashes: number
  readonly rates: number
  readonly losses: number
}

const QUIET: Script = { faults: NO_FAULTS, aborts: 0, timeouts: 0, pauses: 0, crashes: 0, rates: 0, losses: 0 }
const STORMY: Faults = { lost: 15, late: 15, doubled: 15 }

/** Plays a random schedule, then a quiet time that is long enough for every live waiter to be granted. */
async function play(seed: string, script: Script) {
  const random = randomFrom(seed)
  const rate = random.integer(1, 4)
  const world = new Simulation(random, rate, INTERVAL_MS, script.faults)
  world.start(3)
  const waiters: Waiter[] = []
  let highest = rate
  let lost = 0
  let snapshot = world.oracle.snapshot()
  const happens = (percent: number) => random.integer(0, 99) < percent
  for (let step = 0; step < 60; step++) {
    const number = random.integer(0, 2)
    const process = world.processes[number]
    if (waiters.length < 40 && happens(60) && !process.stopped) {
      const control = new AbortController()
      const waiter: Waiter = { who: `w${waiters.length}`, process: number, control, state: 'waits' }
      waiters.push(waiter)
      const timeoutMs = happens(script.timeouts) ? random.integer(500, 8000) : Number.POSITIVE_INFINITY
      const cost = happens(20) ? Math.min(2, rate) : 1
      process.line.wait(cost, waiter.who, { timeoutMs, signal: control.signal }).then(
        () => {
          waiter.state = 'granted'
        },
        () => {
          if (waiter.state === 'waits') waiter.state = 'rejected'
        },
      )
    }
    if (happens(script.aborts) && waiters.length > 0) random.pick(waiters).control.abort()
    if (happens(script.pauses) && !process.stopped) {
      process.stopped = true
      world.schedule(world.nowMs + random.integer(100, 4000), undefined, () => {
        process.stopped = waiters.some(waiter => waiter.process === number && waiter.state === 'gone')
      })
    }
    if (happens(script.crashes) && world.processes.filter(({ stopped }) => !stopped).length > 1 && !process.stopped) {
      process.stopped = true
      for (const waiter of waiters) if (waiter.process === number && waiter.state === 'waits') waiter.state = 'gone'
    }
    if (happens(script.rates)) {
      const next = random.integer(2, 4)
      highest = Math.max(highest, next)
      world.oracle.setRate(next)
      world.tell()
    }
    if (happens(10)) snapshot = world.oracle.snapshot()
    if (happens(script.losses)) {
      snapshot()
      snapshot = world.oracle.snapshot()
      lost++
    }
    await world.advance(random.integer(0, 400))
  }
  world.faults = NO_FAULTS
  await world.advance(90_000)
  return { world, waiters, rate, highest, lost }
}

/** The most units in any span of an interval. */
function most(grants: readonly { readonly at: number; readonly cost: number }[]): number {
  return Math.max(
    0,
    ...grants.map(({ at }) =>
      grants.filter(other => other.at >= at && other.at < at + INTERVAL_MS).reduce((sum, { cost }) => sum + cost, 0),
    ),
  )
}

const scripts: readonly (readonly [string, Script, number])[] = [
  ['in peace', QUIET, 60],
  ['while whoever waits aborts or times out', { ...QUIET, aborts: 20, timeouts: 30 }, 60],
  ['while messages and answers are lost, late and doubled', { ...QUIET, faults: STORMY, aborts: 10 }, 120],
  ['while processes stop and die', { ...QUIET, pauses: 8, crashes: 3, aborts: 5 }, 120],
  ['while the rate changes', { ...QUIET, rates: 10, aborts: 5 }, 60],
  ['while the server loses its newest writes', { ...QUIET, losses: 4, aborts: 5 }, 120],
  [
    'while all of this happens',
    { faults: STORMY, aborts: 10, timeouts: 20, pauses: 5, crashes: 2, rates: 5, losses: 3 },
    120,
  ],
]

describe.each(scripts)('the waiting line, %s', (_, script, runs) => {
  test('grants every live waiter, none twice, and never more than the rate', async () => {
    for (let run = 0; run < ofCases(runs); run++) {
      const { world, waiters, highest, lost } = await play(`${JSON.stringify(script)} ${run}`, script)
      const seed = `run ${run}`
      const { began, oracle } = world
      // Everybody who lives has been granted, or has given up; a cost above a lowered rate is refused.
      expect([seed, waiters.filter(({ state }) => state === 'waits').map(({ who }) => who)]).toEqual([seed, []])
      // No request begins twice.
      expect([seed, new Set(began.map(({ who }) => who)).size]).toEqual([seed, began.length])
      // What began was granted, and by the server's clock no interval sees more than the rate; after a loss one window
      // more.
      const used = began.map(({ grantedAt, cost }) => ({ at: grantedAt, cost }))
      expect([seed, most(used) <= highest * (1 + lost)]).toEqual([seed, true])
      // Late grants of a process that was stopped do not add up: at most twice the permits begin in an interval.
      if (lost === 0 && script.faults.late === 0) expect([seed, most(began) <= 2 * highest]).toEqual([seed, true])
      // Whatever was not used was given back, unless its process died or the server forgot.
      if (lost === 0 && !waiters.some(({ state }) => state === 'gone')) {
        const unused = oracle.grants.filter(
          ({ who, at, returned }) => !returned && !began.some(each => each.who === who && each.grantedAt === at),
        )
        expect([seed, unused]).toEqual([seed, []])
      }
      // No waiter is left in the line.
      const alive = new Set(waiters.filter(({ state }) => state === 'gone').map(({ who }) => who))
      expect([seed, oracle.line.filter(({ who }) => !alive.has(who))]).toEqual([seed, []])
    }
  })
})

test('without faults all processes are served in the order of their requests', async () => {
  for (let run = 0; run < ofCases(40); run++) {
    const { world, waiters } = await play(`order ${run}`, QUIET)
    const tickets = world.oracle.grants.map(({ who }) => Number(who.slice(1)))
    expect(tickets).toHaveLength(waiters.length)
    // Joins of one moment may reach the server in any order.
    for (const [i, ticket] of tickets.entries()) expect(Math.abs(ticket - i)).toBeLessThan(4)
  }
})
