import { parsePolicy } from '../../src/limiter/core/limit.js'
import type { RedisServer } from '../../test/support/redis-server.js'
import { single } from '../contest/figures.js'
import { type Claim, progress } from '../contest/report.js'
import { type Findings, FLEET, leastUsed, noExcess, outcomeTable } from './fleets.js'
import { type Outcome, trial, until } from './trial.js'

/** Processes that are killed, a Redis that stops, a Redis that loses its data. */
export async function faults(redis: RedisServer): Promise<Findings> {
  const client = redis.client()
  const killed: Outcome[] = []
  for (const policies of [['1000/1s', '1000/1s token-bucket'], ['100000/1s'], ['100000/1s token-bucket']]) {
    progress(`leases: kill -9, ${policies}`)
    killed.push(...(await trial(redis, client, { ...FLEET, policies, seconds: 6, killEveryMs: 200 })))
  }
  const policies = ['20000/1s', '20000/1s token-bucket']
  progress('leases: Redis stops')
  let goesOnAt = 0
  const stopped = await trial(redis, client, {
    ...FLEET,
    policies,
    seconds: 9,
    meanwhile: async () => {
      await until(Date.now() + 2000)
      redis.pause()
      await until(Date.now() + 3000)
      redis.unpause()
      goesOnAt = Date.now()
    },
  })
  progress('leases: Redis loses its data')
  const lost = await trial(redis, client, {
    ...FLEET,
    policies,
    seconds: 6,
    meanwhile: async () => {
      await until(Date.now() + 3000)
      await client.flushall()
    },
  })
  const backMs = Math.max(...stopped.map(({ degradedUntil }) => degradedUntil - goesOnAt))
  return {
    tables: [
      outcomeTable('kill -9 of a process every 200 ms', killed),
      outcomeTable('Redis stops for 3 s (SIGSTOP)', stopped),
      outcomeTable('Redis loses its data once (FLUSHALL)', lost),
    ],
    claims: [
      noExcess('a process killed every 200 ms', killed),
      leastUsed('a process killed every 200 ms', killed, 85),
      noExcess('Redis stops for 3 s', stopped),
      {
        text: 'after Redis has stopped for 3 s: from when it goes on until it decides again',
        bound: 'at most',
        target: 2500,
        measured: single(Math.max(0, backMs)),
        unit: 'ms',
      },
      onlyOneBurst(lost),
      leastUsed('Redis loses its data', lost, 70),
    ],
  }
}

/** The ttl of a bucket is a twentieth of its window. */
function onlyOneBurst(outcomes: readonly Outcome[]): Claim {
  const parts = outcomes.map(({ policy, breach }) => {
    const [{ burst, quota, algorithm }] = parsePolicy(policy)
    return breach.excess / (burst + (algorithm === 'token-bucket' ? quota / 20 : 0))
  })
  return {
    text: 'Redis loses its data: units above the policy, against one burst (and rate × ttl of a bucket)',
    bound: 'at most',
    target: 1,
    measured: single(Math.max(...parts)),
  }
}
