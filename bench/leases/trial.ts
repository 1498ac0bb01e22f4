import type { Redis } from 'ioredis'
import { type Limit, parsePolicy } from '../../src/limiter/core/limit.js'
import { MemoryStore } from '../../src/limiter/memory/memory-store.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { ManualClock } from '../../src/testing.js'
import { type Breach, Spending } from '../../test/support/leases/spending.js'
import type { RedisServer } from '../../test/support/redis-server.js'
import { Buyer, type BuyerOptions, RunRecord } from './fleet.js'

/** How a fleet of processes fared under one policy. */
export interface Outcome {
  readonly policy: string
  /** Of what the policy allows after the first window. */
  readonly used: number
  /** Requests after the first window, as a multiple of what the policy allows: what the machine carried. */
  readonly offered: number
  /**
   * What one exact limiter would have used of these requests: less than 1 if the machine stood still, or did not carry
   * as many.
   */
  readonly possible: number
  readonly breach: Breach
  readonly decisions: number
  /** Script calls of all policies of the fleet, for each decision. */
  readonly callsPerDecision: number
  readonly fromLeases: number
  /** Decisions that the failure policy made, because Redis did not answer in time. */
  readonly degraded: number
  /** When the last of them was answered; -Infinity: there was none. */
  readonly degradedUntil: number
}

export interface TrialOptions {
  /** All processes ask under each of them. */
  readonly policies: readonly string[]
  readonly processes: number
  /** Requests of all processes together, as a multiple of the limit. */
  readonly demand: number
  readonly seconds: number
  /** Measured so long after the first window; default: until the end. */
  readonly measuredMs?: number
  readonly leases?: BuyerOptions['leases']
  /** The part of all requests that the first process makes; default: an equal one. */
  readonly first?: number
  /** The oldest process is killed (SIGKILL) so often, and another one, which was ready, begins in its place. */
  readonly killEveryMs?: number
  /** Done while the fleet runs. */
  readonly meanwhile?: () => Promise<void>
}

let trials = 0

/**
 * Lets processes spend from one key, and compares what all of them were allowed with each policy, by the server's
 * clock.
 */
export async function trial(redis: RedisServer, client: Redis, options: TrialOptions): Promise<Outcome[]> {
  const { policies, processes, demand, seconds, leases = true, first = 1 / processes, killEveryMs, meanwhile } = options
  const prefix = `trial${++trials}`
  const limits = policies.map(policy => parsePolicy(policy)[0])
  const records = policies.map(() => new RunRecord())
  const buyers: Buyer[] = []
  const buyer = (share: number, forMs: number) => {
    const phase = (buyers.length % processes) / processes
    const runs = limits.map(({ quota, windowMs }, i) => {
      const perSecond = (share * demand * quota * 1000) / windowMs
      return { policy: policies[i], prefix: `${prefix}r${i}`, perSecond, phase }
    })
    return new Buyer({ port: redis.port, leases, key: 'k', forMs, runs }, records)
  }
  const forMs = seconds * 1000
  for (let i = 0; i < processes; i++) buyers.push(buyer(i === 0 ? first : (1 - first) / (processes - 1), forMs))
  const kills = killEveryMs === undefined ? 0 : Math.floor((forMs - 500) / killEveryMs)
  for (let i = 1; i <= kills; i++) buyers.push(buyer(1 / processes, forMs - i * killEveryMs!))
  await Promise.all(buyers.map(({ ready }) => ready))

  const startsAt = Date.now() + 100
  const endsAt = startsAt + forMs
  for (const [i, one] of buyers.entries()) one.begin(startsAt + Math.max(0, i + 1 - processes) * (killEveryMs ?? 0))
  const watches = limits.map(({ algorithm }, i) => {
    return algorithm === 'fixed-window' ? new WindowWatch(client, `${prefix}r${i}`, endsAt) : undefined
  })
  const callsBefore = await calls(client)
  const killing = (async () => {
    for (let i = 0; i < kills; i++) {
      await until(startsAt + (i + 1) * killEveryMs!)
      buyers[i].kill()
    }
  })()
  await until(startsAt)
  await meanwhile?.()
  await killing
  await Promise.all(buyers.map(({ ended }) => ended))
  const made = (await calls(client)) - callsBefore
  const decisions = records.reduce((sum, { decided }) => sum + decided.total, 0)

  return Promise.all(
    records.map(async ({ spending, decided, degraded, fromLeases }, i): Promise<Outcome> => {
      const { quota, windowMs } = limits[i]
      const from = startsAt + windowMs
      const to = Math.min(endsAt, from + (options.measuredMs ?? Number.POSITIVE_INFINITY))
      const allowance = ((to - from) * quota) / windowMs
      return {
        policy: policies[i],
        used: spending.between(from, to) / allowance,
        offered: decided.between(from, to) / allowance,
        possible: (await exactly(policies[i], decided)).between(from, to) / allowance,
        breach: breachOf(limits[i], records[i], (await watches[i]?.starts()) ?? []),
        decisions: decided.total,
        callsPerDecision: made / decisions,
        fromLeases: fromLeases / spending.total,
        degraded: degraded.total,
        degradedUntil: degraded.lastAt,
      }
    }),
  )
}

/** What one exact limiter allows of requests, in memory. */
async function exactly(policy: string, requests: Spending): Promise<Spending> {
  const clock = new ManualClock()
  const limiter = new RateLimiter({ policy, store: new MemoryStore({ clock }) })
  const allowed = new Spending()
  for (const [at, units] of requests.answers()) {
    clock.set(at)
    const decision = await limiter.consumeUpTo('k', units)
    if (decision.allowed) allowed.add(at, at, decision.cost)
  }
  await limiter.close()
  return allowed
}

function breachOf({ algorithm, quota, windowMs, burst }: Limit, { spending }: RunRecord, starts: number[]): Breach {
  if (algorithm === 'sliding-window') return spending.inWindows(quota, windowMs)
  if (algorithm === 'fixed-window') return spending.inOwnWindows(quota, windowMs, starts)
  if (algorithm === 'sliding-counter') return spending.inCells(quota, windowMs)
  return spending.inSpans(burst, quota, windowMs)
}

/** The starts of a fixed window, as the server keeps them. */
class WindowWatch {
  readonly #starts = new Set<number>()
  readonly #done: Promise<void>

  constructor(
    readonly client: Redis,
    prefix: string,
    untilAt: number,
  ) {
    this.#done = this.#watch(prefix, untilAt)
  }

  async starts(): Promise<number[]> {
    await this.#done
    return [...this.#starts]
  }

  async #watch(prefix: string, untilAt: number): Promise<void> {
    let key: string | undefined
    while (Date.now() < untilAt + 500) {
      key ??= (await this.client.keys(`${prefix}:{k}:*fw*`)).find(
        name => !name.endsWith(':leases') && !name.endsWith(':settled'),
      )
      const row = key === undefined ? null : await this.client.getBuffer(key)
      // A row begins with the start of the window.
      if (row !== null && row.length >= 8) this.#starts.add(row.readDoubleLE(0))
      await until(Date.now() + 5)
    }
  }
}

/** Script calls that the server has made. */
async function calls(client: Redis): Promise<number> {
  const text = await client.info('commandstats')
  let sum = 0
  for (const [, count] of text.matchAll(/cmdstat_(?:evalsha|eval):calls=(\d+)/g)) sum += Number(count)
  return sum
}

export async function until(at: number): Promise<void> {
  const ms = at - Date.now()
  if (ms > 0) await new Promise(resolve => setTimeout(resolve, ms))
}
