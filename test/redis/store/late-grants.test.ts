import { beforeAll, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../../src/index.js'
import { ALGORITHM_NAMES, type AlgorithmName, type Policy, parsePolicy } from '../../../src/limiter/core/limit.js'
import { MemoryCounts } from '../../../src/limiter/memory/memory-counts.js'
import { knownCounts } from '../../../src/limiter/port.js'
import { type Charge, receiptsOf } from '../../../src/limiter/store.js'
import type { RedisCounts } from '../../../src/redis/store/redis-counts.js'
import { ManualClock } from '../../../src/testing.js'
import { redisLineOf } from '../../../src/waiting/line/limiter-lines.js'
import { lineAnswer } from '../../../src/waiting/line/line-answer.js'
import { forCases } from '../../support/cases.js'
import { changesText } from '../../support/line-words.js'
import type { Random } from '../../support/random.js'
import { START } from '../../support/stories.js'
import { testRedis } from '../../support/test-redis.js'
import { expectSame, expectSameVerdicts } from '../../support/verdicts.js'

const redis = testRedis()
let client: Redis
let members = 0
beforeAll(() => {
  client = redis.bulkClient()
})

/** A grant that its process has read, or will give back. */
interface Grant {
  readonly cost: number
  readonly at: number
  readonly facts: readonly string[]
}

/**
 * One key under some limits, in Redis: a process that asks by the messages of the waiting line, and others that spend.
 */
class Key {
  readonly store: RedisStore
  readonly charges: readonly Charge[]
  readonly #own: string

  constructor(
    readonly clock: ManualClock,
    readonly policy: Policy,
    prefix: string,
  ) {
    this.store = new RedisStore(client, { clock, prefix })
    this.charges = policy.map(limit => ({ key: 'k', limit }))
    this.#own = policy.map(({ quota, windowMs, burst }) => `${quota} ${windowMs} ${burst}`).join(' ')
  }

  /** What the key has under each limit. */
  async left(): Promise<readonly number[]> {
    return (await this.store.peek(this.charges, 0)).map(({ remaining }) => remaining)
  }

  async spend(cost: number): Promise<boolean> {
    return (await this.store.consume(this.charges, cost)).every(({ allowed }) => allowed)
  }

  /** A grant, if so much is free now. */
  acquire(cost: number): Promise<Grant | undefined> {
    return this.#ask(cost, ['j', this.#waiter(cost), '', '0'])
  }

  /** Its waiter has given up. */
  async giveUp(grant: Grant): Promise<void> {
    await this.#ask(grant.cost, this.#return(grant))
  }

  /** It was read too late: a new grant for it, or undefined if its waiter has to wait; that one leaves. */
  exchange(grant: Grant): Promise<Grant | undefined> {
    return this.#ask(grant.cost, [...this.#return(grant), 'j', this.#waiter(grant.cost), '1', '-1'])
  }

  #return(grant: Grant): string[] {
    return ['r', this.#waiter(grant.cost), '', wordOf(grant)]
  }

  #waiter(cost: number): string {
    return `0 ${cost} ${this.#own}`
  }

  async #ask(cost: number, changes: readonly string[]): Promise<Grant | undefined> {
    const member = `process/${members++}`
    const waiter = this.#waiter(cost)
    const send = async (number: string, stamp: string, changes: readonly string[]) => {
      const words = [member, number, stamp, '', number === '1' ? '' : waiter, changesText(changes)]
      const line = redisLineOf(knownCounts(this.store) as RedisCounts, this.charges)!
      return lineAnswer(
        await line.ask({ member, replaces: '', words, copies: { latestMs: 0 } }, Number.POSITIVE_INFINITY),
        2 * this.charges.length,
      )
    }
    const { granted, grantedAt, waiting, stamp } = await send('1', '', changes)
    if (waiting > 0) await send('2', stamp, ['l', waiter, '', ''])
    return granted.length === 0 ? undefined : { cost, at: grantedAt, facts: granted[0].facts }
  }
}

/** The last word of a change that gives a grant back: its moment, and what it said. */
function wordOf({ at, facts }: Grant): string {
  return [at, ...facts].join(' ')
}

const keyOf = (policy: string) => {
  const clock = new ManualClock(START)
  return { clock, key: new Key(clock, parsePolicy(policy), `late ${members++}`) }
}

describe('a grant that comes back after its window takes nothing from others', () => {
  test.each(['fixed-window', 'sliding-window', 'sliding-counter', 'token-bucket', 'leaky-bucket burst=10'])(
    '%s',
    async algorithm => {
      for (const way of ['giveUp', 'exchange'] as const) {
        const { clock, key } = keyOf(`10/1s ${algorithm}`)
        const grant = await key.acquire(1)
        expect(grant).toBeDefined()
        // The counter's next cell, when nothing of this one counts any more.
        clock.advance(algorithm === 'sliding-counter' ? 2000 : 1000)
        expect(await key.spend(10)).toBe(true)
        expect(await key[way](grant!)).toBeUndefined()
        expect(await key.left()).toEqual([0])
      }
    },
  )

  test('of the calendar', async () => {
    const { clock, key } = keyOf('10/day tz=UTC')
    const grant = await key.acquire(1)
    clock.advance(86_400_000)
    expect(await key.spend(10)).toBe(true)
    expect(await key.exchange(grant!)).toBeUndefined()
    expect(await key.left()).toEqual([0])
  })

  test('under each of several limits by its own window', async () => {
    const { clock, key } = keyOf('10/1s fixed-window; 100/1h sliding-window')
    const grant = await key.acquire(4)
    clock.advance(1000)
    expect(await key.spend(10)).toBe(true)
    await key.giveUp(grant!)
    expect(await key.left()).toEqual([0, 90])
  })
})

test('a grant that comes back from a token bucket does not give back what the bucket has regained', async () => {
  const { clock, key } = keyOf('10/1s token-bucket')
  const grant = await key.acquire(5)
  clock.advance(250)
  expect(await key.spend(7)).toBe(true)
  await key.giveUp(grant!)
  // Of the five, two and a half were regained and are spent again.
  expect(await key.left()).toEqual([2])
})

describe('grants that come back late give back what a settlement in memory does', () => {
  test.each([...ALGORITHM_NAMES.map(name => [name, [name]] as const), ['all five together', ALGORITHM_NAMES] as const])(
    '%s',
    (title, algorithms) => forCases(150, `late grants ${title}`, (random, id) => play(algorithms, random, id)),
  )
})

async function play(algorithms: readonly AlgorithmName[], random: Random, id: string): Promise<void> {
  const clock = new ManualClock(START)
  const window = random.pick([1000, 30_000, 60_007])
  const quota = random.integer(3, 20)
  const policy = parsePolicy(
    algorithms.map((algorithm, i) => ({ quota: quota + i, window: window * (i + 1), algorithm, name: algorithm })),
  )
  const key = new Key(clock, policy, id)
  const memory = new MemoryCounts(clock, 1_000_000)
  const { charges } = key
  const open: Array<readonly [Grant, () => void]> = []
  const acquireHere = (cost: number) => {
    if (memory.fitsAfterMs(charges, 0, cost) > 0) return undefined
    const verdicts = memory.take(charges, cost)
    const receipts = receiptsOf(charges, verdicts, memory.decidedAt, cost)
    return { verdicts, giveBack: () => memory.giveBack(receipts, cost) }
  }
  const keep = (there: Grant | undefined, here: ReturnType<typeof acquireHere>) => {
    expectSame(there === undefined, here === undefined)
    if (there === undefined || here === undefined) return
    expect(there.facts.map(Number)).toEqual(
      here.verdicts.flatMap(({ remaining, resetAfterMs }) => [remaining, resetAfterMs]),
    )
    open.push([there, here.giveBack])
  }
  for (let step = 0; step < 40; step++) {
    clock.advance(random.pick([0, 0, 1, random.integer(0, Math.floor(window / 4)), random.integer(0, 2 * window)]))
    const cost = random.integer(1, 4)
    switch (random.integer(0, 6)) {
      case 0:
        expectSameVerdicts(await key.store.consume(charges, cost), memory.consume(charges, cost))
        break
      case 1:
        await key.store.refund(charges, 1)
        memory.refund(charges, 1)
        break
      case 2:
      case 3: {
        if (open.length === 0) break
        const [[there, giveBack]] = open.splice(random.integer(0, open.length - 1), 1)
        giveBack()
        if (random.integer(0, 1) === 0) await key.giveUp(there)
        else keep(await key.exchange(there), acquireHere(there.cost))
        break
      }
      default:
        keep(await key.acquire(cost), acquireHere(cost))
    }
    expectSameVerdicts(await key.store.peek(charges, 1), memory.peek(charges, 1))
  }
  memory.close()
}
