import { setTimeout } from 'node:timers/promises'
import { beforeAll, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { portOf } from '../../../src/redis/clients.js'
import { runScript } from '../../../src/redis/script.js'
import { rateAsk } from '../../../src/redis/scripts.js'
import { ManualClock } from '../../../src/testing.js'
import { RateKeys } from '../../../src/waiting/rate/options.js'
import { SharedRateLimiter } from '../../../src/waiting/rate/shared-rate-limiter.js'
import { answerParts, changesText } from '../../support/line-words.js'
import { randomFrom } from '../../support/random.js'
import { testRedis } from '../../support/test-redis.js'
import { LineOracle } from './oracle.js'

/** These asks are never too late. */
const NEVER_LATE = String(Number.MAX_SAFE_INTEGER)

const START = 1_700_000_000_000

const redis = testRedis()
let client: Redis
beforeAll(() => {
  client = redis.client()
})

/** A member as the scripts see it, with what it believes. */
class Asker {
  asked = 0
  stamps: readonly [string, string] = ['', '']
  inside: { tail: string; tickets: readonly [number, number] }[] = []
  last: string[] = []

  constructor(
    readonly member: string,
    readonly replaces = '',
  ) {}
}

/** The granted, the refused and the waiting of a reply: what does not depend on the moment of asking. */
function outcome(reply: unknown): unknown {
  if (!Array.isArray(reply) || Number(reply[0]) !== 1) return Number((reply as unknown[])[0])
  const lists = reply.slice(10, 12).map(list => (list as unknown[]).map(Number))
  return { at: Number(reply[2]), waiting: Number(reply[5]), most: Number(reply[7]), lists }
}

test('the scripts of a shared rate answer random asks as the oracle does', async () => {
  for (let run = 0; run < 25; run++) {
    const random = randomFrom(`asks ${run}`)
    const clock = new ManualClock(START)
    // Processes live by real time, which hardly passes here: nobody is evicted.
    const oracle = new LineOracle(
      random.integer(1, 4),
      1000,
      () => clock.now(),
      () => 0,
    )
    const name = `oracle-${run}`
    const limiter = new SharedRateLimiter(client, name, { clock })
    await limiter.setRate({ rate: oracle.rate, interval: 1000 })
    const keys = new RateKeys(`spillway:{${name}}:rate`, 'client')
    const port = portOf(client, 'test')
    const askers = ['a/1.0', 'b/1.0', 'c/1.0'].map(member => new Asker(member))
    let numbers = 0

    /** Asks both, with the stamps and tickets that each of them gave. */
    const ask = async (asker: Asker, words: (side: 0 | 1) => readonly string[]) => {
      const { member, replaces } = asker
      const records = [keys.record(member), keys.record(replaces === '' ? member : replaces)]
      const args = [String(clock.now()), 'client', 'channel:', ...words(0), NEVER_LATE]
      const there = answerParts(await runScript(port, rateAsk, [...keys.own, ...records], args))
      const here = oracle.ask(words(1))
      expect([run, outcome(there)]).toEqual([run, outcome(here)])
      return { there, here }
    }

    for (let step = 0; step < 60; step++) {
      const place = random.integer(0, 2)
      let asker = askers[place]
      if (random.integer(0, 19) === 0) {
        // It comes back as another member, with the tickets that it had.
        const next = new Asker(`${asker.member}x`, asker.member)
        const { inside } = asker
        askers[place] = asker = next
        numbers += inside.length
        next.inside = inside
      }
      const number = asker.asked + 1
      const reopens = number === 1
      const leaves =
        !reopens && asker.inside.length > 0 && random.integer(0, 2) === 0 ? [random.pick(asker.inside)] : []
      const joins = Array.from({ length: random.integer(0, 2) }, () => {
        const cost = random.integer(1, Math.min(2, oracle.rate))
        return `${numbers} ${cost} w${numbers++}`
      })
      const words = (side: 0 | 1) => [
        asker.member,
        String(number),
        asker.stamps[side],
        reopens ? asker.replaces : '',
        '',
        changesText([
          ...leaves.flatMap(({ tail }) => ['l', tail, '', '']),
          ...(reopens ? asker.inside.flatMap(({ tail, tickets }) => ['j', tail, String(tickets[side]), '-1']) : []),
          ...joins.flatMap(tail => ['j', tail, '', '-1']),
        ]),
      ]
      const { there, here } = await ask(asker, words)
      // The same ask once more, as it comes when an answer was lost: it is answered alike, and does nothing.
      if (random.integer(0, 3) === 0) await ask(asker, words)
      if (Number(here[0]) !== 1) continue
      asker.asked = number
      asker.stamps = [String(there[1]), String(here[1])]
      const gone = new Set(
        [...(here[10] as number[]), ...(here[11] as number[]).filter((_, i) => i % 2 === 0)].map(Number),
      )
      const first = [Number(there[6]), Number(here[6])]
      const joined = joins.map((tail, i) => ({ tail, tickets: [first[0] + i, first[1] + i] as const }))
      asker.inside = [...asker.inside.filter(each => !leaves.includes(each)), ...joined].filter(
        ({ tail }) => !gone.has(Number(tail.split(' ')[0])),
      )
      clock.advance(random.integer(0, 300))
    }
    await limiter.close()
  }
})

/** Asks as one process, in the line of a rate that is set. */
function askerOf(name: string) {
  const keys = new RateKeys(`spillway:{${name}}:rate`, 'client')
  return async (number: string, stamp: string, first: string, changes: readonly string[]) => {
    const records = [keys.record('a/1.0'), keys.record('a/1.0')]
    const args = ['', 'client', 'channel:', 'a/1.0', number, stamp, '', first, changesText(changes), NEVER_LATE]
    return answerParts(await runScript(portOf(client, 'test'), rateAsk, [...keys.own, ...records], args))
  }
}

test('grants that came too late are exchanged in their order, also by a process that was silent for seconds', async () => {
  const limiter = new SharedRateLimiter(client, 'exchanged')
  await limiter.setRate({ rate: 2, interval: 60_000 })
  const ask = askerOf('exchanged')
  const join = (waiter: string) => ['j', waiter, '', '-1']
  const first = await ask('1', '', '', [...join('0 1 w0'), ...join('1 1 w1'), ...join('2 1 w2')])
  expect(first[10]).toEqual([0, 1])
  // It should have asked long ago: it counts as dead.
  const [, , , , asks] = new RateKeys('spillway:{exchanged}:rate', 'client').own
  expect(await client.zadd(asks, 'CH', '1', 'a/1.0')).toBe(1)
  const [stamp, at, ticket] = [String(first[1]), String(first[2]), Number(first[6])]
  const exchange = (waiter: string, place: number) => ['g', waiter, String(ticket + place), at]
  const changes = [...exchange('3 1 w0', 0), ...exchange('4 1 w1', 1), ...join('5 1 w3')]
  const answer = await ask('2', stamp, '2 1 w2', changes)
  expect(answer[10]).toEqual([3, 4])
  await limiter.close()
})

test('an ask of a process that was silent for seconds grants nothing to waiters that leave by the same ask', async () => {
  const limiter = new SharedRateLimiter(client, 'silent')
  await limiter.setRate({ rate: 1, interval: 20 })
  const ask = askerOf('silent')
  const first = await ask('1', '', '', ['j', '0 1 w0', '', '-1', 'j', '1 1 w1', '', '-1'])
  expect((first[10] as unknown[]).map(Number)).toEqual([0])
  // By then a process that has not asked counts as dead.
  await setTimeout(Number(first[4]) + 1000)
  const answer = await ask('2', String(first[1]), '', ['l', '1 1 w1', '', '', 'j', '2 1 w2', '', '-1'])
  expect(Number(answer[5])).toBe(0)
  expect((answer[10] as unknown[]).map(Number)).toEqual([2])
  await limiter.close()
})
