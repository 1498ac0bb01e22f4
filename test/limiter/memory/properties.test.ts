import { describe, expect, test } from '@jest/globals'
import { ALGORITHM_NAMES, type AlgorithmName } from '../../../src/limiter/core/limit.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { forCases } from '../../support/cases.js'
import type { Random } from '../../support/random.js'
import { forRandom } from '../../support/run.js'
import {
  type Bench,
  longestWaitMs,
  randomChange,
  randomCost,
  randomHistory,
  randomLimit,
  Subject,
} from '../../support/scenario.js'
import { benchesOf } from '../../support/store-benches.js'
import {
  capacityOf,
  expectAtMost,
  expectFields,
  expectSame,
  expectSameVerdict,
  expectSameVerdicts,
  freshVerdict,
} from '../../support/verdicts.js'

// Every other store is compared with this one in every field of every verdict: test/support/agreement.ts.
const onBench = benchesOf({ make: clock => new MemoryStore({ clock }) })

/** Ten thousand years: where waits are longer, it is the clock that can no longer count. */
const FOREVER_MS = 315_360_000_000_000

/** `key` is used by nobody else; the bench's clock, neither. */
type Property = (bench: Bench, key: string, algorithm: AlgorithmName, random: Random) => Promise<void>

/** So many keys keep a promise together: under one limit, with pasts of their own. */
const FLOCK = 10

/** The promises of every verdict, whatever happened before; for a group of keys. */
const PROMISES: Readonly<Record<string, Property>> = {
  async 'what is denied is denied until the promised moment and allowed at it'(bench, key, algorithm, random) {
    const { limit, subjects } = await flock(bench, key, algorithm, random)
    const most = capacityOf(limit)
    // Whoever has spent nothing does, so that something is denied that could ever fit.
    await Promise.all(
      (await Promise.all(subjects.map(subject => subject.peek(0)))).map(
        ({ remaining }, i) => remaining === most && subjects[i].consume(random.integer(1, most)),
      ),
    )
    bench.clock.advance(random.integer(0, 1))
    const costs = (await Promise.all(subjects.map(subject => subject.peek(0)))).map(({ remaining }) => {
      const least = Math.min(remaining + 1, most)
      return random.integer(0, 19) === 0 ? most + 1 : random.integer(least, random.pick([least, least, most]))
    })
    const denials = await Promise.all(subjects.map((subject, i) => subject.consume(costs[i])))
    const waits = denials.map(({ retryAfterMs }) => retryAfterMs)
    costs.forEach((cost, i) => {
      expectSame(denials[i].allowed, waits[i] === 0)
      expectSame(waits[i] === Number.POSITIVE_INFINITY, cost > most)
    })
    await atEach(bench, waits, random, async (afterMs, places) => {
      const verdicts = await Promise.all(places.map(i => subjects[i].peek(costs[i])))
      places.forEach((i, k) => {
        // Allowed at once, it is spent: a look says no more.
        if (waits[i] === 0) return
        const retryAfterMs = Math.max(0, waits[i] - afterMs)
        expectFields(verdicts[k], { allowed: retryAfterMs === 0, retryAfterMs })
      })
    })
  },

  async 'a key is as if never used at the promised moment and no ms before'(bench, key, algorithm, random) {
    const { limit, subjects } = await flock(bench, key, algorithm, random)
    // An enquiry by consume remembers it where the clock ran back.
    const standing = await Promise.all(subjects.map(subject => subject.consume(0)))
    const resets = standing.map(({ resetAfterMs }) => resetAfterMs)
    const fresh = freshVerdict(limit)
    await atEach(bench, resets, random, async (afterMs, places) => {
      const verdicts = await Promise.all(places.map(i => subjects[i].peek(0)))
      places.forEach((i, k) => {
        if (afterMs < resets[i]) expectSame(verdicts[k].resetAfterMs, resets[i] - afterMs)
        else expectSameVerdict(verdicts[k], fresh)
      })
    })
    if (Math.max(...resets) > FOREVER_MS) return
    for (const verdict of await Promise.all(subjects.map(subject => subject.consume(fresh.remaining)))) {
      expectFields(verdict, { allowed: true, remaining: 0, delayMs: 0 })
    }
  },
}

/** Further properties of every algorithm. */
const PROPERTIES: Readonly<Record<string, Property>> = {
  async 'a changed quota tells the truth about what was spent under the old one'(bench, key, algorithm, random) {
    const before = randomLimit(algorithm, random)
    await new Subject(bench, key, before).live(randomHistory(before, random, 4))
    const subject = new Subject(bench, key, randomChange(before, random))
    await subject.live(randomHistory(subject.limit, random, 1))
    const cost = await anyDeniedCost(subject, random)
    if (cost === undefined) return
    const { retryAfterMs, remaining } = await subject.consume(cost)
    expectAtMost(0, remaining)
    if (cost <= capacityOf(subject.limit)) await expectAllowedIn(subject, cost, retryAfterMs, random)
  },

  async 'a look changes nothing'(bench, key, algorithm, random) {
    const limit = randomLimit(algorithm, random)
    const looked = new Subject(bench, key, limit)
    const alone = new Subject(bench, `${key} alone`, limit)
    for (const { afterMs, cost } of randomHistory(limit, random, 6)) {
      bench.clock.advance(afterMs)
      const foreseen = await looked.peek(cost)
      await looked.peek(randomCost(limit, random))
      const verdict = await looked.consume(cost)
      expectSameVerdict(verdict, foreseen)
      expectSameVerdict(await alone.consume(cost), verdict)
      await looked.peek(randomCost(limit, random))
    }
    await expectSameFuture(looked, alone, random)
  },

  async 'a refusal changes nothing'(bench, key, algorithm, random) {
    const limit = randomLimit(algorithm, random)
    const refused = new Subject(bench, key, limit)
    const spared = new Subject(bench, `${key} spared`, limit)
    // With time that runs on: where it ran back, even a refusal remembers that it did.
    for (const { afterMs, cost } of randomHistory(limit, random, 6, false)) {
      bench.clock.advance(afterMs)
      const verdict = await refused.consume(cost)
      if (verdict.allowed) expectSameVerdict(await spared.consume(cost), verdict)
      expectSameVerdict(await spared.peek(0), await refused.peek(0))
    }
    await expectSameFuture(refused, spared, random)
  },

  async 'a cost of n is n costs of one at the same moment'(bench, key, algorithm, random) {
    const limit = randomLimit(algorithm, random)
    const whole = new Subject(bench, key, limit)
    const single = new Subject(bench, `${key} single`, limit)
    const history = randomHistory(limit, random, 4, false)
    for (const { afterMs, cost } of history) {
      bench.clock.advance(afterMs)
      await whole.consume(cost)
      await single.consume(cost)
    }
    const cost = random.integer(2, 12)
    const verdict = await whole.consume(cost)
    const singles = await Promise.all(Array.from({ length: cost }, () => single.consume(1)))
    const allowed = singles.filter(one => one.allowed).length
    if (!verdict.allowed) {
      expectAtMost(allowed, cost - 1)
      expectSame(allowed, verdict.remaining)
      return
    }
    expectSame(allowed, cost)
    expectSameVerdict({ ...singles[cost - 1], delayMs: 0 }, { ...verdict, delayMs: 0 })
    expectSame(singles[0].delayMs, verdict.delayMs)
    await expectSameFuture(whole, single, random)
  },

  async 'a clock that steps back grants nothing and lets nobody wait longer than ever'(bench, key, algorithm, random) {
    const limit = randomLimit(algorithm, random)
    const subject = new Subject(bench, key, limit)
    await subject.live(randomHistory(limit, random, 5))
    const cost = randomCost(limit, random)
    const before = await subject.peek(cost)
    const standing = await subject.peek(0)
    bench.clock.advance(-random.integer(1, random.pick([2, 100, limit.windowMs, 4 * limit.windowMs])))
    const after = await subject.peek(cost)
    expectAtMost((await subject.peek(0)).remaining, standing.remaining)
    if (after.allowed) expectSame(before.allowed, true)
    // A refusal remembers that the clock ran back: at the promised moment it is over, though the clock never caught up.
    const verdict = await subject.consume(cost)
    expectSameVerdict(verdict, after)
    expectAtMost(verdict.resetAfterMs, longestWaitMs(limit))
    if (verdict.allowed || cost > capacityOf(limit)) return
    expectAtMost(verdict.retryAfterMs, longestWaitMs(limit))
    await expectAllowedIn(subject, cost, verdict.retryAfterMs, random)
  },

  async 'what is refunded at once was never spent'(bench, key, algorithm, random) {
    const limit = randomLimit(algorithm, random)
    const refunded = new Subject(bench, key, limit)
    const spent = new Subject(bench, `${key} spent`, limit)
    const history = randomHistory(limit, random, 4, false)
    for (const { afterMs, cost } of history) {
      bench.clock.advance(afterMs)
      await refunded.consume(cost)
      await spent.consume(cost)
    }
    const most = (await spent.peek(0)).remaining
    const cost = random.integer(0, most)
    const back = random.integer(0, cost)
    expectSame((await refunded.consume(cost)).allowed, true)
    await refunded.refund(back)
    await spent.consume(cost - back)
    expectSame((await refunded.peek(0)).remaining, (await spent.peek(0)).remaining)
    if (algorithm === 'sliding-window') {
      // The oldest came back: what is left may count for longer than if the newest had never been spent, never shorter.
      for (let i = 0; i < 3; i++) {
        bench.clock.advance(random.integer(0, limit.windowMs))
        expectAtMost((await refunded.peek(0)).remaining, (await spent.peek(0)).remaining)
      }
      return
    }
    // A fixed window that was started by what came back goes on.
    if (cost > back) await expectSameFuture(refunded, spent, random)
  },

  async 'no more comes back than was spent'(bench, key, algorithm, random) {
    const limit = randomLimit(algorithm, random)
    const subject = new Subject(bench, key, limit)
    await subject.live(randomHistory(limit, random, 5))
    await subject.refund(Number.MAX_SAFE_INTEGER)
    expectSame((await subject.peek(0)).remaining, capacityOf(limit))
    const verdict = await subject.consume(capacityOf(limit))
    expectFields(verdict, { allowed: true, remaining: 0 })
    expectSame((await subject.consume(1)).allowed, false)
  },
}

async function flock(bench: Bench, key: string, algorithm: AlgorithmName, random: Random) {
  const limit = randomLimit(algorithm, random)
  const subjects = Array.from({ length: FLOCK }, (_, i) => new Subject(bench, `${key}.${i}`, limit))
  for (const { afterMs } of randomHistory(limit, random, 6)) {
    bench.clock.advance(afterMs)
    await Promise.all(subjects.map(subject => subject.consume(randomCost(limit, random))))
  }
  return { limit, subjects }
}

/**
 * Looks at each place one ms before its span has passed from now on, and as it has; and each time at some other place
 * too.
 */
async function atEach(
  bench: Bench,
  spansMs: readonly number[],
  random: Random,
  look: (afterMs: number, places: readonly number[]) => Promise<void>,
): Promise<void> {
  const now = bench.clock.now()
  const places = new Map<number, number[]>()
  spansMs.forEach((ms, place) => {
    if (ms === 0 || ms > FOREVER_MS) return
    for (const moment of [ms - 1, ms]) places.set(moment, [...(places.get(moment) ?? []), place])
  })
  for (const [afterMs, due] of [...places].sort(([a], [b]) => a - b)) {
    bench.clock.set(now + afterMs)
    await look(afterMs, [...due, random.integer(0, spansMs.length - 1)])
  }
}

async function expectAllowedIn(subject: Subject, cost: number, retryAfterMs: number, random: Random): Promise<void> {
  const { clock } = subject.bench
  expectAtMost(0 + 1, retryAfterMs)
  if (retryAfterMs > FOREVER_MS) return
  const someMs = random.integer(1, retryAfterMs)
  clock.advance(retryAfterMs - someMs)
  expectSame((await subject.peek(cost)).retryAfterMs, someMs)
  clock.advance(someMs - 1)
  expectFields(await subject.peek(cost), { allowed: false, retryAfterMs: 1 })
  clock.advance(1)
  expectFields(await subject.consume(cost), { allowed: true, retryAfterMs: 0 })
}

/**
 * A cost that is denied as things stand, from those that just do not fit to those that never will; fills the limit if
 * it must.
 */
async function anyDeniedCost(subject: Subject, random: Random): Promise<number | undefined> {
  const most = capacityOf(subject.limit)
  const { remaining } = await subject.peek(0)
  if (remaining === most && most > 0) {
    await subject.consume(random.integer(1, most))
    subject.bench.clock.advance(random.integer(0, 1))
  }
  const least = (await subject.peek(0)).remaining + 1
  if (least > most) return most + 1 <= Number.MAX_SAFE_INTEGER ? most + 1 : undefined
  return random.integer(0, 9) === 0 ? most + 1 : random.integer(least, random.pick([least, most]))
}

/** Two keys that say the same now and at any time from now on. */
async function expectSameFuture(a: Subject, b: Subject, random: Random): Promise<void> {
  for (let i = 0; i < 2; i++) {
    const cost = randomCost(a.limit, random)
    const [[foreseen, sameForeseen], [verdict, same]] = await Promise.all([
      Promise.all([a.peek(cost), b.peek(cost)]),
      Promise.all([a.consume(cost), b.consume(cost)]),
    ])
    expectSameVerdict(foreseen, sameForeseen)
    expectSameVerdict(verdict, same)
    a.bench.clock.advance(random.integer(0, a.limit.windowMs))
  }
}

/** Of each promise, 11 500 cases in all, of which at least 10 000 are denied for a time that ends. */
const FLOCKS = 11_500 / FLOCK
const holds = (property: Property, algorithm: AlgorithmName, count: number) =>
  forRandom(count, random => onBench(given => property(given, 'key', algorithm, random)))

describe.each(ALGORITHM_NAMES)('%s', algorithm => {
  test.each(Object.entries(PROMISES))('%s', (_, promise) => holds(promise, algorithm, FLOCKS), 60_000)
  test.each(Object.entries(PROPERTIES))('%s', (_, property) => holds(property, algorithm, 2000), 60_000)
})

describe('several limits', () => {
  test('are decided together: all spend or none does', () =>
    forCases(1000, 'all or none', (random, id) =>
      onBench(async given => {
        const limits = Array.from({ length: random.integer(2, 6) }, (_, i) => ({
          ...randomLimit(random.pick(ALGORITHM_NAMES), random),
          name: `${i}`,
        }))
        const subjects = limits.map(limit => new Subject(given, id, limit))
        for (const { afterMs, cost } of randomHistory(random.pick(limits), random, 8)) {
          given.clock.advance(afterMs)
          const [alone, standing] = await Promise.all([
            Promise.all(subjects.map(subject => subject.peek(cost))),
            Promise.all(subjects.map(subject => subject.peek(0))),
          ])
          const allowed = alone.every(verdict => verdict.allowed)
          const expected = allowed ? alone : alone.map((verdict, i) => (verdict.allowed ? standing[i] : verdict))
          expectSameVerdicts(await given.store.peek(subjects, cost), expected)
          expectSameVerdicts(await given.store.consume(subjects, cost), expected)
          const after = await Promise.all(subjects.map(subject => subject.peek(0)))
          const left = (allowed ? alone : standing).map(({ remaining }) => remaining)
          expect(after.map(({ remaining }) => remaining)).toEqual(left)
        }
      }),
    ))

  test('denied together are allowed together at the longest of their waits', async () => {
    let denied = 0
    await forCases(1000, 'longest wait', (random, id) =>
      onBench(async given => {
        const limits = ALGORITHM_NAMES.map((algorithm, i) => ({ ...randomLimit(algorithm, random), name: `${i}` }))
        const subjects = limits.map(limit => new Subject(given, id, limit))
        const cost = random.integer(1, Math.min(...limits.map(capacityOf)))
        for (let i = 0; i < 3; i++) {
          await given.store.consume(subjects, cost)
          given.clock.advance(random.integer(0, 2000))
        }
        const waits = (await given.store.consume(subjects, cost)).map(({ retryAfterMs }) => retryAfterMs)
        const longest = Math.max(...waits)
        if (longest === 0) return
        denied++
        given.clock.advance(longest - 1)
        expect((await given.store.peek(subjects, cost)).every(({ allowed }) => allowed)).toBe(false)
        given.clock.advance(1)
        expect((await given.store.peek(subjects, cost)).every(({ allowed }) => allowed)).toBe(true)
      }),
    )
    expect(denied).toBeGreaterThan(0)
  })
})
