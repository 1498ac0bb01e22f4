import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { RedisServer } from '../../test/support/redis-server.js'
import { figure, median } from '../contest/figures.js'
import type { Findings } from './fleets.js'

const CONTENDER = fileURLToPath(new URL('./contender.mjs', import.meta.url))
const DECIDE = 'decide from a lease'
const CONSUME = 'awaited consume from a lease'
const MEMORY = 'awaited consume in memory'
const PEER = 'express-rate-limit, awaited increment'
const NAMES = [DECIDE, CONSUME, MEMORY, PEER]

interface Speed {
  readonly perSecond: number
  readonly p99Us: number
}

/**
 * How many decisions of one busy key a process makes in a second. The contenders take turns, each time in a fresh
 * process; a ratio compares turns of one round.
 */
export async function decideSpeed(redis: RedisServer, rounds: number): Promise<Findings> {
  const turns = new Map<string, Speed[]>(NAMES.map(name => [name, []]))
  for (let round = 0; round < rounds; round++) {
    for (const name of round % 2 === 0 ? NAMES : NAMES.toReversed()) turns.get(name)!.push(await speedOf(name, redis))
  }
  const of = (name: string, pick: (speed: Speed) => number) => turns.get(name)!.map(pick)
  const perSecond = (name: string) => of(name, speed => speed.perSecond)
  const against = (name: string, others: number[]) => median(perSecond(name).map((mine, i) => mine / others[i]))
  const wanted = perSecond(PEER).map(peer => Math.min(5e6, peer / 2))
  const p99 = (name: string) => median(of(name, speed => speed.p99Us))
  return {
    tables: [
      {
        caption: 'One busy key, one process, a limit far above the traffic',
        head: ['contender', 'decisions/s', 'p99 µs'],
        rows: NAMES.map(name => [name, figure(median(perSecond(name)).value), figure(p99(name).value)]),
      },
    ],
    claims: [
      {
        text: "`decide` from a lease, against 5 million a second or half of express-rate-limit's awaited `increment`, if that is less",
        bound: 'at least',
        target: 1,
        measured: against(DECIDE, wanted),
      },
      {
        text: 'awaited `consume` from a lease, against the memory store',
        bound: 'at least',
        target: 0.75,
        measured: against(CONSUME, perSecond(MEMORY)),
      },
      {
        text: 'p99 of an awaited `consume` from a lease',
        bound: 'at most',
        target: 5,
        measured: p99(CONSUME),
        unit: 'µs',
      },
    ],
  }
}

async function speedOf(name: string, redis: RedisServer): Promise<Speed> {
  const child = fork(CONTENDER, [name, String(redis.port)])
  const [speed] = (await once(child, 'message')) as [Speed]
  await once(child, 'exit')
  return speed
}
