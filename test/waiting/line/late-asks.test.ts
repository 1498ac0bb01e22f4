import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../../src/index.js'
import { StoreError } from '../../../src/limiter/core/errors.js'
import { parseLimit } from '../../../src/limiter/core/limit.js'
import { knownCounts } from '../../../src/limiter/port.js'
import { portOf } from '../../../src/redis/clients.js'
import type { RedisCounts } from '../../../src/redis/store/redis-counts.js'
import { redisLineOf } from '../../../src/waiting/line/limiter-lines.js'
import { LineFlight } from '../../../src/waiting/line/line-flight.js'
import type { LineAsk, LineUser } from '../../../src/waiting/line/line-user.js'
import { Mailbox } from '../../../src/waiting/line/mailbox.js'
import { RateLine } from '../../../src/waiting/rate/line.js'
import { RateKeys } from '../../../src/waiting/rate/options.js'
import { SharedRateLimiter } from '../../../src/waiting/rate/shared-rate-limiter.js'
import { SemaphoreCommands } from '../../../src/waiting/semaphore/commands.js'
import { SemaphoreLine } from '../../../src/waiting/semaphore/line.js'
import { Semaphore } from '../../../src/waiting/semaphore/semaphore.js'
import { changesText } from '../../support/line-words.js'
import { testRedis } from '../../support/test-redis.js'

/** An ask is sent again for so long, to learn whether it was carried out. */
const REMEMBERED_MS = 50_000
const DEADLINE_MS = 5000

const redis = testRedis()
let admin: Redis
beforeAll(() => {
  admin = redis.client()
})

const MEMBER = 'process/0.0'
/** The first ask of a member: one request, for one unit. */
const joining = (own: string): LineAsk => ({
  member: MEMBER,
  replaces: '',
  words: [MEMBER, '1', '', '', '', changesText(['j', `0 1 ${own}`, '', '-1'])],
  copies: { latestMs: 0 },
})

interface Asked {
  send(endsAt: number): Promise<unknown>
  /** The units that are free; one at first. */
  free(): Promise<number>
}

const NOTHING = { hear() {}, live() {} }

const KINDS: readonly (readonly [string, (client: Redis) => Promise<Asked>])[] = [
  [
    'RateLimiter.acquire',
    async client => {
      const store = new RedisStore(client)
      const charges = [{ key: 'k', limit: parseLimit({ quota: 1, window: '1h' }) }]
      return {
        send: endsAt => redisLineOf(knownCounts(store) as RedisCounts, charges)!.ask(joining('1 3600000 1'), endsAt),
        free: async () => (await store.peek(charges, 0))[0].remaining,
      }
    },
  ],
  [
    'SharedRateLimiter',
    async client => {
      const limiter = new SharedRateLimiter(admin, 'k')
      await limiter.setRate({ rate: 1, interval: '1h' })
      const keys = new RateKeys('spillway:{k}:rate', 'client')
      const line = new RateLine(client, { subject: 'test', prefix: 'spillway', keys, now: () => '' })
      return { send: endsAt => line.send(joining(''), endsAt), free: () => limiter.availablePermits() }
    },
  ],
  [
    'Semaphore',
    async client => {
      const semaphore = new Semaphore(admin, 'k')
      await semaphore.trySetPermits(1)
      const mailbox = new Mailbox(client, 'spillway', NOTHING)
      const commands = new SemaphoreCommands(client, {
        subject: 'test',
        base: 'spillway:{k}:semaphore',
        channel: mailbox.channel,
        permits: undefined,
        fixed: false,
        idleMs: undefined,
        clock: undefined,
      })
      const line = new SemaphoreLine(commands, portOf(client, 'test'), mailbox)
      return { send: endsAt => line.send(joining('30000 ~lease'), endsAt), free: () => semaphore.availablePermits() }
    },
  ],
]

test.each(KINDS)(
  '%s: an ask that Redis reads after its last moment takes nothing, and in time it does',
  async (_, make) => {
    await admin.flushall()
    const client = redis.client()
    await client.ping()
    const { send, free } = await make(client)
    expect(await free()).toBe(1)
    redis.pause()
    // Real time: the server's clock says whether it is late. The semaphore's is exact to the second.
    const sent = send(performance.now() + 100)
    const refused = expect(sent).rejects.toThrow(StoreError)
    await sleep(1200)
    redis.unpause()
    await refused
    expect(await free()).toBe(1)
    expect(await admin.keys(`*:sent:${MEMBER}`)).toEqual([])
    expect(await admin.keys('*:line*')).toEqual([])
    // The same ask, as the first of a member that the server does not know.
    expect(String(await send(performance.now() + 5000))).toMatch(/^1 /)
    expect(await free()).toBe(0)
  },
)

test.each(KINDS)('%s: an ask that was carried out is answered after its last moment, too', async (_, make) => {
  await admin.flushall()
  const client = redis.client()
  await client.ping()
  const { send, free } = await make(client)
  const answer = String(await send(performance.now() + 5000))
  expect(await free()).toBe(0)
  const parts = (text: string) => [text.split(' ').slice(0, 3), text.split(',').slice(1)]
  expect(parts(String(await send(performance.now() - 2000)))).toEqual(parts(answer))
  expect(await free()).toBe(0)
})

test('all copies of an ask have the same last moment, when its callers are rejected; none is sent after its record', () => {
  let now = 1000
  const retry = { set() {}, clear() {} }
  const timing = { now: () => now, alarm: () => retry, nextTurn() {} }
  const ends: number[] = []
  let givenUp = 0
  const user = {
    ready: () => true,
    deadlineMs: DEADLINE_MS,
    send: (__: LineAsk, endsAt: number) => {
      ends.push(endsAt)
      return new Promise(() => {})
    },
  } as Partial<LineUser<void>> as LineUser<void>
  const carried = { number: 1, changes: undefined as never, ask: joining('') }
  const flight = new LineFlight<void>(carried, user, timing, retry, {
    answered() {},
    fault() {},
    tooLate() {},
    delayed() {},
    givenUp: () => givenUp++,
  })

  for (const at of [1050, 2000, 1000 + REMEMBERED_MS, 1001 + REMEMBERED_MS]) {
    now = at
    flight.send()
  }
  expect(ends).toEqual(Array(4).fill(1000 + DEADLINE_MS))
  expect(givenUp).toBe(1)
})
