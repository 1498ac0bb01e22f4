import type { Redis } from 'ioredis'
import { parsePolicy } from '../../src/core/limit.js'
import { type BuyerOptions, Fleet } from '../../test/support/leases/fleet.js'
import type { Breach } from '../../test/support/leases/spending.js'
import type { RedisServer } from '../../test/support/redis-server.js'

/** How a fleet of processes fared. */
export interface Outcome {
  readonly policy: string
  readonly processes: number
  /** Of what the policy allows after the first window. */
  readonly used: number
  readonly breach: Breach
  readonly decisions: number
  readonly callsPerDecision: number
  readonly fromLeases: number
  /** Decisions that the failure policy made, because Redis did not answer in time. */
  readonly degraded: number
}

export interface TrialOptions {
  readonly policy: string
  readonly processes: number
  /** Requests of all processes together, as a multiple of the limit. */
  readonly demand: number
  readonly seconds: number
  readonly leases?: BuyerOptions['leases']
  /** The part of all requests that the first process makes; default: an equal one. */
  readonly first?: number
  /** Done while the fleet runs; gets what it takes to start another process. */
  readonly meanwhile?: (fleet: Fleet, startOne: () => void, untilAt: number) => Promise<void>
}

let trials = 0

/** Lets processes spend from one key, and compares what all of them were allowed with the policy, by the server's clock. */
export async function trial(redis: RedisServer, client: Redis, options: TrialOptions): Promise<Outcome> {
  const { policy, processes, demand, seconds, leases = true, first = 1 / processes, meanwhile } = options
  const [{ quota, windowMs, burst, algorithm }] = parsePolicy(policy)
  const prefix = `trial${++trials}`
  const perSecond = (demand * quota * 1000) / windowMs
  const fleet = new Fleet()
  const startsAt = Date.now() + 500 + 250 * processes
  const buyer = (share: number): BuyerOptions => {
    const forMs = startsAt + seconds * 1000 - Math.max(Date.now(), startsAt)
    return { port: redis.port, policy, prefix, leases, perSecond: perSecond * share, forMs, key: 'k', startsAt }
  }
  for (let i = 0; i < processes; i++) fleet.start(buyer(i === 0 ? first : (1 - first) / (processes - 1)))
  const endsAt = startsAt + seconds * 1000
  const watch = algorithm === 'fixed-window' ? new WindowWatch(client, prefix, endsAt) : undefined
  await until(startsAt - 50)
  const callsBefore = await calls(client)
  await meanwhile?.(fleet, () => void fleet.start(buyer(1 / processes)), endsAt)
  await fleet.end()
  const made = (await calls(client)) - callsBefore
  const starts = await watch?.starts()
  const { spending } = fleet
  const measured = spending.between(startsAt + windowMs, endsAt)
  const spanMs = endsAt - startsAt - windowMs
  const breach = {
    'sliding-window': () => spending.inWindows(quota, windowMs),
    'token-bucket': () => spending.inSpans(burst, quota, windowMs),
    'fixed-window': () => spending.inOwnWindows(quota, windowMs, starts ?? []),
    'sliding-counter': () => spending.inCells(quota, windowMs),
    'leaky-bucket': () => spending.inSpans(burst, quota, windowMs),
  }[algorithm]()
  const inLeases = fleet.counts.reduce((sum, { lease }) => sum + lease, 0)
  return {
    policy,
    processes,
    used: measured / ((quota * spanMs) / windowMs),
    breach,
    decisions: fleet.decisions,
    callsPerDecision: made / fleet.decisions,
    fromLeases: inLeases / spending.total,
    degraded: fleet.counts.reduce((sum, { degraded }) => sum + degraded, 0),
  }
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
      if (row !== null && row.length === 24) this.#starts.add(row.readDoubleLE(0))
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
