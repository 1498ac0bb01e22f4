import assert from 'node:assert/strict'
import { RateLimiter, type RedisClient, RedisStore } from 'spillway'
import { LivePolicies } from 'spillway/live'
import { eventually } from '../../support/eventually.js'
import type { Case } from '../case.js'
import { CLIENTS, freshName, withTwo } from '../clients.js'

export const live: Case[] = Object.entries(CLIENTS).map(([name, open]) => ({
  name: `LivePolicies, ${name}`,
  run: () => withTwo(open, changed),
}))

/** One process changes a limit, and the other decides by it. */
async function changed(...clients: RedisClient[]): Promise<string> {
  const prefix = freshName()
  const [one, other] = clients.map(client => new LivePolicies(client, { defaults: { api: '3/1m' }, prefix }))
  const store = new RedisStore(clients[1], { prefix })
  const limiter = new RateLimiter({ policy: other.policy('api'), store, deadline: '5s' })
  assert.equal((await limiter.consume('ada')).remaining, 2)
  await one.set('api', '9/1m')
  await eventually('the other process has heard', async () => (await limiter.peek('ada')).limit.quota === 9)
  await Promise.all([limiter.close(), one.close(), other.close()])
  return 'changed in one, in force in the other'
}
