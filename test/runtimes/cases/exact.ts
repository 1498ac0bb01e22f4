import assert from 'node:assert/strict'
import { MemoryStore, parsePolicy, RateLimiter, RedisStore, type Store } from 'spillway'
import { ManualClock } from 'spillway/testing'
import { START, STORIES } from '../../support/stories.js'
import { type Case, sleep } from '../case.js'
import { CLIENTS, freshName, withTwo } from '../clients.js'

export const exact: Case[] = [
  {
    name: 'exact in memory',
    run: async () => {
      const told = await tell(clock => new MemoryStore({ clock }))
      const store = new MemoryStore()
      await shareQuota([store, store])
      return told
    },
  },
  ...Object.entries(CLIENTS).map(([name, open]) => ({
    name: `exact on Redis, ${name}`,
    run: () =>
      withTwo(open, async (one, other) => {
        const told = await tell(clock => new RedisStore(one, { clock, prefix: freshName() }))
        const prefix = freshName()
        await shareQuota([new RedisStore(one, { prefix }), new RedisStore(other, { prefix })])
        return told
      }),
  })),
]

/** The stories that every store tells, row by row: verdict, remaining, and both waits. */
export async function tell(make: (clock: ManualClock) => Store): Promise<string> {
  let decisions = 0
  for (const [policy, rows] of STORIES) {
    const clock = new ManualClock(START)
    const store = make(clock)
    const [limit] = parsePolicy(policy)
    for (const [at, cost, allowed, remaining, retryAfterMs, resetAfterMs, why, delayMs = 0] of rows) {
      clock.set(START + at)
      const [verdict] = await store.consume([{ key: 'client', limit }], cost)
      const expected = { limit, allowed, remaining, retryAfterMs, resetAfterMs, delayMs }
      assert.deepEqual(
        { ...verdict },
        expected,
        `${JSON.stringify(policy)} at ${at}: ${why}: ${JSON.stringify(verdict)}`,
      )
      decisions++
    }
    await store.close?.()
  }
  return `${decisions} decisions of ${STORIES.length} policies`
}

/** Two processes ask for more than there is, under two limits; and the promised moment holds by the real clock. */
export async function shareQuota(stores: readonly Store[]): Promise<void> {
  const name = freshName()
  const limiters = stores.map(store => new RateLimiter({ policy: '50/1m; 80/1h', name, store, deadline: '5s' }))
  const decisions = await Promise.all(Array.from({ length: 200 }, (_, i) => limiters[i % 2].consume('crowd')))
  assert.equal(decisions.filter(({ allowed }) => allowed).length, 50)
  assert.ok(decisions.every(({ allowed, retryAfterMs }) => allowed || (retryAfterMs > 0 && retryAfterMs <= 60_000)))

  const quick = stores.map(
    store => new RateLimiter({ policy: '2/500ms', name: `${name}-quick`, store, deadline: '5s' }),
  )
  assert.equal((await quick[0].consume('me', 2)).allowed, true)
  const { allowed, retryAfterMs } = await quick[1].consume('me', 2)
  assert.equal(allowed, false)
  // A timer may ring a little early.
  await sleep(retryAfterMs + 2)
  assert.equal((await quick[1].consume('me', 2)).allowed, true)
  const waited = await Promise.all([0, 1, 2].map(i => quick[i % 2].acquire('me', { cost: 2, timeout: '5s' })))
  assert.ok(waited.every(decision => decision.allowed))
  for (const limiter of [...limiters, ...quick]) await limiter.close()
}
