import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { RedisServer } from '../../test/support/redis-server.js'

const CONTENDER = fileURLToPath(new URL('./contender.mjs', import.meta.url))
const NAMES = [
  'decide from a lease',
  'awaited consume from a lease',
  'awaited consume in memory',
  'express-rate-limit, awaited increment',
]
const ROUNDS = 3

interface Speed {
  readonly perSecond: number
  readonly p99Us: number
}

/** How many decisions of one busy key a process makes in a second: the best of the rounds, in which the contenders take turns. */
export async function decideSpeed(redis: RedisServer) {
  const best = new Map<string, Speed>()
  for (let round = 0; round < ROUNDS; round++) {
    for (const name of NAMES) {
      const child = fork(CONTENDER, [name, String(redis.port)])
      const [speed] = (await once(child, 'message')) as [Speed]
      await once(child, 'exit')
      const known = best.get(name)
      if (known === undefined || speed.perSecond > known.perSecond) best.set(name, speed)
    }
  }
  return [...best].map(([name, { perSecond, p99Us }]) => ({
    contender: name,
    'decisions per second': Math.round(perSecond).toLocaleString('en-US').replaceAll(',', ' '),
    'p99 us': p99Us.toFixed(2),
  }))
}
