import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { TimeoutError } from '../../src/core/errors.js'
import { longestAnswerMs, ProcessRate, type Unit } from '../../src/outgoing/rate.js'
import { ofCases } from '../support/cases.js'
import { randomFrom } from '../support/random.js'

const FOR_EVER = { timeoutMs: Number.POSITIVE_INFINITY, signal: undefined }

/** What the rate promises, in the plainest way: all units in one list, sorted whenever somebody asks. */
class PlainRate {
  readonly waiting: number[] = []
  readonly granted: number[] = []
  readonly #units = new Map<number, { end: number }>()

  constructor(
    readonly rate: number,
    readonly intervalMs: number,
  ) {}

  join(id: number): void {
    this.waiting.push(id)
    this.pass()
  }

  answer(id: number): void {
    const unit = this.#units.get(id)
    const end = performance.now() + this.intervalMs
    if (unit !== undefined && end < unit.end) this.#units.set(id, { end })
  }

  /** False if its call left so long ago that its end is settled. */
  drop(id: number): boolean {
    const { end = 0 } = this.#units.get(id) ?? {}
    if (end - this.intervalMs <= performance.now()) return false
    this.#units.delete(id)
    this.pass()
    return true
  }

  leave(id: number): void {
    this.waiting.splice(this.waiting.indexOf(id), 1)
  }

  /** Gives units to waiters; returns how long somebody who came now would wait. */
  pass(): number {
    const now = performance.now()
    for (const [id, { end }] of this.#units) if (end <= now) this.#units.delete(id)
    while (this.waiting.length > 0 && this.#units.size < this.rate) {
      const end = now + longestAnswerMs(this.intervalMs) + this.intervalMs
      const id = this.waiting.shift() as number
      this.#units.set(id, { end })
      this.granted.push(id)
    }
    if (this.waiting.length === 0 && this.#units.size < this.rate) return 0
    const ends = [...this.#units.values()].map(({ end }) => end).sort((a, b) => a - b)
    // Whoever waits takes the unit that ends first, and keeps it for at least an interval.
    const ahead = this.waiting.length
    return ends[ahead % this.rate] + Math.floor(ahead / this.rate) * this.intervalMs - now
  }
}

describe('a rate in the process', () => {
  beforeEach(() => void jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] }))
  afterEach(() => void jest.useRealTimers())

  test.each(['in the order of the calls', 'in any order'])(
    'grants the same calls at the same moments as a list that is sorted each time, and tells the same waits, with answers %s',
    async order => {
      for (let round = 0; round < ofCases(40); round++) {
        const random = randomFrom(`rate ${order} ${round}`)
        const rate = random.integer(1, 6)
        const intervalMs = random.pick([100, 1000])
        const plain = new PlainRate(rate, intervalMs)
        const tested = new ProcessRate({ rate, intervalMs }, 'p')
        const units = new Map<number, Unit>()
        const granted: number[] = []
        const endings = new Map<number, AbortController>()
        let calls = 0
        for (let step = 0; step < 120; step++) {
          const inFlight = [...units.keys()]
          const chosen = order === 'in any order' && inFlight.length > 0 ? random.pick(inFlight) : inFlight[0]
          const what = random.integer(0, 9)
          if (what < 4) {
            const id = calls++
            const ending = new AbortController()
            endings.set(id, ending)
            tested.take({ ...FOR_EVER, signal: ending.signal }).then(
              unit => {
                units.set(id, unit)
                granted.push(id)
              },
              () => {},
            )
            plain.join(id)
          } else if (what < 6 && chosen !== undefined) {
            units.get(chosen)?.answered()
            plain.answer(chosen)
            units.delete(chosen)
          } else if (what === 6 && inFlight.length > 0 && order === 'in any order') {
            if (!plain.drop(chosen)) continue
            units.get(chosen)?.unused()
            units.delete(chosen)
          } else if (what === 7 && plain.waiting.length > 0) {
            const id = random.pick(plain.waiting)
            endings.get(id)?.abort()
            plain.leave(id)
          } else {
            for (let ms = random.integer(1, intervalMs / 4); ms > 0; ms--) {
              jest.advanceTimersByTime(1)
              plain.pass()
            }
          }
          await new Promise(resolve => setImmediate(resolve))
          const waitMs = Math.ceil(plain.pass())
          expect(granted).toEqual(plain.granted)
          if (waitMs === 0) continue
          const error = await tested.take({ timeoutMs: 0, signal: undefined }).then(
            () => 'none',
            (error: unknown) => error,
          )
          expect(error).toBeInstanceOf(TimeoutError)
          const told = (error as TimeoutError).retryAfterMs as number
          if (order !== 'in any order') expect(told).toBe(waitMs)
          // An answer that overtakes others may be taken for the longest that one can take.
          expect(told).toBeGreaterThanOrEqual(waitMs)
          expect(told).toBeLessThanOrEqual(waitMs + longestAnswerMs(intervalMs))
        }
        for (const ending of endings.values()) ending.abort()
        await tested.close()
      }
    },
  )

  test('calls that give up behind a first one that waits leave no memory, and the line goes on', async () => {
    const tested = new ProcessRate({ rate: 1, intervalMs: 1000 }, 'p')
    const [first] = [await tested.take(FOR_EVER)]
    const second = tested.take(FOR_EVER)
    for (let i = 0; i < 10_000; i++) {
      const ending = new AbortController()
      const gone = tested.take({ ...FOR_EVER, signal: ending.signal })
      ending.abort()
      await expect(gone).rejects.toBe(ending.signal.reason)
    }
    const third = tested.take(FOR_EVER)
    first.answered()
    jest.advanceTimersByTime(1001)
    ;(await second).answered()
    jest.advanceTimersByTime(1001)
    ;(await third).answered()
    jest.advanceTimersByTime(1001)
    expect(tested.idle).toBe(true)
  })
})

test('a call that begins to wait costs the same behind 4000 others as behind 200', async () => {
  const cpuUs = async (waiting: number) => {
    const tested = new ProcessRate({ rate: waiting, intervalMs: 2 ** 30 }, 'p')
    for (let i = 0; i < waiting; i++) (await tested.take(FOR_EVER)).answered()
    const ending = new AbortController()
    const from = process.cpuUsage()
    const all = Array.from({ length: waiting }, () => tested.take({ ...FOR_EVER, signal: ending.signal }))
    ending.abort()
    await Promise.allSettled(all)
    const { user } = process.cpuUsage(from)
    await tested.close()
    return user / waiting
  }
  await cpuUs(1000)
  const few = await cpuUs(200)
  // Sorting the units made it 30 times as long.
  expect(await cpuUs(4000)).toBeLessThan(8 * few)
}, 60_000)
