import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import { type Policy, parsePolicy } from '../../src/limiter/core/limit.js'
import type { RedisServer } from '../../test/support/redis-server.js'
import { type Median, median } from '../contest/figures.js'
import { readWork } from '../contest/redis-meter.js'

const KEYS = 1000
const TURNS = 9
const DECISIONS = 4000

/** The first is what the others are compared with. */
export const POLICIES: ReadonlyArray<{ readonly name: string; readonly policy: Policy }> = [
  { name: 'one sliding-window', policy: parsePolicy('100000/1h') },
  {
    name: 'six sliding-window',
    policy: parsePolicy('10000/1s; 20000/1m; 50000/10m; 100000/1h; 500000/1d; 900000/30d'),
  },
  { name: 'one token-bucket', policy: parsePolicy('100000/1h token-bucket') },
  {
    name: 'six token-bucket',
    policy: parsePolicy(
      '10000/1s token-bucket; 20000/1m token-bucket; 50000/10m token-bucket; 100000/1h token-bucket; 500000/1d token-bucket; 900000/30d token-bucket',
    ),
  },
  {
    name: 'six of five kinds',
    policy: parsePolicy(
      '10000/1s token-bucket; 20000/1m fixed-window; 50000/10m sliding-counter; 100000/1h; 500000/1d; 900000/30d leaky-bucket',
    ),
  },
]
/** Which one each is compared with: one limit of its kind, or the sliding window. */
const BASE = [0, 0, 2, 2, 0]

export interface PolicyCost {
  readonly alone: Median
  readonly together: Median
  readonly ratioAlone: Median
  readonly ratioTogether: Median
  /** Of the server's processor time, to read, decide and answer, one decision at a time. */
  readonly ratioCpu: Median
  readonly roundTrips: number
}

/** The server time of decisions, µs, by its own count. Policies alternate, and a ratio compares neighbouring turns. */
export async function policyCosts(server: RedisServer): Promise<PolicyCost[]> {
  const client = server.client()
  const store = new RedisStore(client)
  const ask = (i: number, key: string) =>
    store.consume(
      POLICIES[i].policy.map(limit => ({ key, limit })),
      1,
    )
  const alone = POLICIES.map((): number[] => [])
  const together = POLICIES.map((): number[] => [])
  const trips = POLICIES.map((): number[] => [])
  const cpu = POLICIES.map((): number[] => [])
  for (const i of POLICIES.keys()) await inFlight(64, key => ask(i, key))
  for (let turn = 0; turn < TURNS; turn++) {
    for (const i of POLICIES.keys()) {
      for (const [count, figures] of [
        [1, alone],
        [64, together],
      ] as const) {
        const before = await work(client)
        await inFlight(count, key => ask(i, key))
        const after = await work(client)
        figures[i].push((after.us - before.us) / DECISIONS)
        if (count > 1) continue
        trips[i].push((after.calls - before.calls) / DECISIONS)
        cpu[i].push((after.cpuUs - before.cpuUs) / DECISIONS)
      }
    }
  }
  client.disconnect()
  const ratio = (figures: number[][], i: number) => median(figures[i].map((us, turn) => us / figures[BASE[i]][turn]))
  return POLICIES.map((_, i) => ({
    alone: median(alone[i]),
    together: median(together[i]),
    ratioAlone: ratio(alone, i),
    ratioTogether: ratio(together, i),
    ratioCpu: ratio(cpu, i),
    roundTrips: Math.max(...trips[i]),
  }))
}

async function inFlight(count: number, ask: (key: string) => Promise<unknown>): Promise<void> {
  let next = 0
  const asker = async () => {
    while (next < DECISIONS) await ask(`key ${next++ % KEYS}`)
  }
  await Promise.all(Array.from({ length: count }, asker))
}

/** The number of script calls so far, their time, and the processor time, µs. */
async function work(client: Redis): Promise<{ calls: number; us: number; cpuUs: number }> {
  const { calls, cpuUs } = await readWork(client)
  const [, us = '0'] = /^cmdstat_evalsha:calls=\d+,usec=(\d+)/m.exec(await client.info('commandstats')) ?? []
  return { calls: calls('evalsha'), us: Number(us), cpuUs }
}
