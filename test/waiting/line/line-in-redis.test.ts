import { setTimeout } from 'node:timers/promises'
import { beforeAll, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { portOf } from '../../../src/redis/clients.js'
import { runScript } from '../../../src/redis/script.js'
import { rateAsk } from '../../../src/redis/scripts.js'
import { RateKeys } from '../../../src/waiting/rate/options.js'
import { SharedRateLimiter } from '../../../src/waiting/rate/shared-rate-limiter.js'
import { answerParts, changesText } from '../../support/line-words.js'
import { testRedis } from '../../support/test-redis.js'

/** These asks are never too late. */
const NEVER_LATE = String(Number.MAX_SAFE_INTEGER)

const redis = testRedis()
let client: Redis
beforeAll(() => {
  client = redis.client()
})

/** The numbers of the granted waiters in an answer: each has one fact. */
const grantedIn = (answer: readonly unknown[]) => (answer[9] as number[]).filter((_, i) => i % 2 === 0)

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
  expect(grantedIn(first)).toEqual([0, 1])
  // It should have asked long ago: it counts as dead.
  const [, , , , asks] = new RateKeys('spillway:{exchanged}:rate', 'client').own
  expect(await client.zadd(asks, 'CH', '1', 'a/1.0')).toBe(1)
  const [stamp, ticket] = [String(first[1]), Number(first[6])]
  const grant = `${first[2]} ${(first[9] as number[])[1]}`
  const giveBack = (waiter: string) => ['r', waiter, '', grant]
  const rejoin = (waiter: string, place: number) => ['j', waiter, String(ticket + place), '-1']
  const back = [...giveBack('0 1 w0'), ...giveBack('1 1 w1')]
  const changes = [...back, ...rejoin('3 1 w0', 0), ...rejoin('4 1 w1', 1), ...join('5 1 w3')]
  const answer = await ask('2', stamp, '2 1 w2', changes)
  expect(grantedIn(answer)).toEqual([3, 4])
  await limiter.close()
})

test('an ask of a process that was silent for seconds grants nothing to waiters that leave by the same ask', async () => {
  const limiter = new SharedRateLimiter(client, 'silent')
  await limiter.setRate({ rate: 1, interval: 20 })
  const ask = askerOf('silent')
  const first = await ask('1', '', '', ['j', '0 1 w0', '', '-1', 'j', '1 1 w1', '', '-1'])
  expect(grantedIn(first)).toEqual([0])
  // By then a process that has not asked counts as dead.
  await setTimeout(Number(first[4]) + 1000)
  const answer = await ask('2', String(first[1]), '', ['l', '1 1 w1', '', '', 'j', '2 1 w2', '', '-1'])
  expect(Number(answer[5])).toBe(0)
  expect(grantedIn(answer)).toEqual([2])
  await limiter.close()
})
