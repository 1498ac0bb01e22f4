import type { Redis } from 'ioredis'
import { Child } from './child.js'
import type { Granted, Order } from './rate-worker.js'

/** Processes that share one rate, each with a client of its own. End with the process that started them. */
export class RateWorkers {
  private constructor(readonly processes: readonly Child[]) {}

  static async start(count: number, url: string, name: string): Promise<RateWorkers> {
    return new RateWorkers(await Child.startAll(count, "import './test/support/rate-worker.ts'", [url, name]))
  }

  /** Has one worker acquire: all at once, unless told otherwise. */
  acquire(worker: number, count: number, order: Partial<Order> = {}): Promise<Granted> {
    return this.processes[worker].ask({ count, lanes: count, ...order } satisfies Order)
  }

  stop(): void {
    for (const process of this.processes) process.kill()
  }
}

/**
 * The moments at which a rate granted its permits, by the server's clock, as they stand in its log. An entry is seen
 * while it counts, so it must be read more often than once an interval.
 */
export class GrantLog {
  /** How many permits had been granted by each moment, and how many at it. */
  readonly #entries = new Map<number, { readonly total: number; readonly count: number }>()
  readonly #timer: ReturnType<typeof setInterval>
  #reading = Promise.resolve()

  constructor(
    readonly redis: Redis,
    /** Of the log. */
    readonly key: string,
    readonly intervalMs: number,
  ) {
    this.#timer = setInterval(() => this.read(), intervalMs / 10)
  }

  read(): Promise<void> {
    this.#reading = this.#read()
    return this.#reading
  }

  /** One moment for each permit, in their order. Fails if any was missed. */
  async stop(granted: number): Promise<number[]> {
    clearInterval(this.#timer)
    await this.read()
    const times = [...this.#entries]
      .sort(([a], [b]) => a - b)
      .flatMap(([at, { count }]) => new Array<number>(count).fill(at))
    if (times.length !== granted) throw new Error(`${times.length} grants were seen of ${granted}`)
    return times
  }

  async #read(): Promise<void> {
    const [[, time], [, list]] = (await this.redis.multi().time().lrangeBuffer(this.key, 0, -1).exec()) as [
      [null, [string, string]],
      [null, Buffer[]],
    ]
    const entries = list.map(packed => ({
      at: packed.readUIntBE(0, 6),
      total: packed.readUIntBE(6, packed.length - 6),
    }))
    // Whoever reads a grant too late gives it back: it then stands in the log no longer, though its interval is not
    // over.
    const startOfInterval = Number(time[0]) * 1000 + Number(time[1]) / 1000 - this.intervalMs
    for (const at of this.#entries.keys()) if (at > startOfInterval) this.#entries.delete(at)
    for (const [i, { at, total }] of entries.entries()) {
      if (i > 0) this.#entries.set(at, { total, count: total - entries[i - 1].total })
    }
  }
}

/** The key of the log of a shared rate. */
export const logOf = (name: string) => `spillway:{${name}}:rate:log`

/** The most permits that were granted in any span of so many ms. */
export function mostWithin(ms: number, times: readonly number[]): number {
  let most = 0
  for (let first = 0, last = 0; last < times.length; last++) {
    while (times[last] - times[first] >= ms) first++
    most = Math.max(most, last - first + 1)
  }
  return most
}
