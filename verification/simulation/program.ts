// One process of a schedule: uses everything at once over its own client, and writes down each operation.
import { Redis } from 'ioredis'
import type { Decision } from '../../src/limiter/core/decision.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { LivePolicies } from '../../src/operating/live/index.js'
import type { RedisClient } from '../../src/redis/client.js'
import { RedisStore } from '../../src/redis/store/redis-store.js'
import { DelayQueue } from '../../src/waiting/queue/delay-queue.js'
import { SharedRateLimiter } from '../../src/waiting/rate/shared-rate-limiter.js'
import { Semaphore } from '../../src/waiting/semaphore/semaphore.js'
import { type Random, randomFrom } from '../../test/support/random.js'
import type { Decided, Limit, Operation } from '../histories/history.js'
import type { Network } from './network.js'
import type { Use } from './uses.js'
import type { SimulatedProcess, World } from './world.js'

type Begun = Operation extends infer One
  ? One extends Operation
    ? Omit<One, 'id' | 'process' | 'askedAt'>
    : never
  : never

const SOURCES: Readonly<Record<string, Decided['source']>> = { redis: 'store', 'deny-cache': 'memory' }
const facts = ({ allowed, source, remaining, retryAfterMs }: Decision) => {
  const told = SOURCES[source] ?? (source as Decided['source'])
  return { allowed, source: told, remaining, retryAfterMs }
}

/** Of limits, as a policy is written. */
function policyOf(limits: readonly Limit[]) {
  return limits.map(({ algorithm, quota, windowMs, burst }) => {
    const bucket = algorithm === 'token-bucket' || algorithm === 'leaky-bucket'
    return { quota, window: windowMs, algorithm, ...(bucket && { burst }) }
  })
}

/** What the processes of a schedule share: what they do until when, and where they write it down. */
export interface Plan {
  readonly world: World
  readonly network: Network
  readonly uses: readonly Use[]
  /** The faults have ended; less is done from then on. */
  readonly calmAt: number
  /** Nothing new is begun then. */
  readonly endsAt: number
  /** Everything is closed then, what was begun has ended. */
  readonly closesAt: number
  readonly operations: Operation[]
}

export class Program {
  readonly #client: RedisClient
  readonly #redis: Redis
  readonly #random: Random
  readonly #closing: Array<() => Promise<unknown>> = []
  #store: RedisStore | undefined

  constructor(
    readonly plan: Plan,
    readonly process: SimulatedProcess,
  ) {
    this.#random = randomFrom(`${plan.world.seed} ${process.name}`)
    this.#redis = new Redis({
      Connector: plan.network.connectorOf(process) as never,
      protocol: 2,
      disableClientInfo: true,
      retryStrategy: times => Math.min(times * 50, 1000),
      socketTimeout: this.#random.pick([undefined, 1000]),
    })
    this.#redis.on('error', () => {})
    this.#client = this.#redis as unknown as RedisClient
  }

  /** Ends when the process has closed everything. */
  async run(): Promise<void> {
    const { uses, world, closesAt } = this.plan
    await Promise.all(uses.map(use => this.#use(use)))
    await this.#pause(Math.max(0, closesAt - world.now))
    await Promise.all(this.#closing.map(close => close().catch(() => {})))
    await this.#store?.close()
    this.#redis.disconnect()
  }

  #use(use: Use): Promise<unknown> {
    switch (use.kind) {
      case 'decide':
        return this.#decide(use)
      case 'acquire':
        return this.#acquire(use)
      case 'rate':
        return this.#rate(use)
      case 'semaphore':
        return this.#semaphore(use)
      case 'queue':
        return this.#queue(use)
    }
  }

  #pause = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

  /** Again and again, with pauses up to so long. */
  async #forever(mostMs: number, act: () => Promise<unknown>): Promise<void> {
    const { world, endsAt, calmAt } = this.plan
    const rest = () => this.#pause(this.#random.integer(0, world.now < calmAt ? mostMs : 8 * mostMs))
    await rest()
    while (world.now < endsAt) {
      await act()
      await rest()
    }
  }

  async #recorded<T>(
    begun: Begun,
    act: () => Promise<T>,
    told: (answer: T) => object = () => ({}),
  ): Promise<{ id: number; answer: T } | undefined> {
    const { operations, world } = this.plan
    const id = operations.length
    operations.push({ id, process: this.process.name, askedAt: world.now, ...begun } as Operation)
    const write = (more: object) => {
      operations[id] = { ...operations[id], answeredAt: world.now, ...more } as Operation
    }
    try {
      const answer = await act()
      write(told(answer))
      return { id, answer }
    } catch (error) {
      const { code } = error as { code?: string }
      write(code === 'SPILLWAY_TIMEOUT' ? { allowed: false, granted: false } : { error: `${code ?? error}` })
      return undefined
    }
  }

  async #limiter({ subject, live, denyCache }: Use): Promise<RateLimiter> {
    const { name, limits = [], deadlineMs, localShare, leased } = subject
    const store = new RedisStore(this.#client, { prefix: leased ? 'leasing' : 'spillway', leases: leased === true })
    this.#closing.push(() => store.close())
    let policy: ConstructorParameters<typeof RateLimiter>[0]['policy'] = policyOf(limits)
    if (live) {
      const policies = new LivePolicies(this.#client, { defaults: { [name]: policyOf(limits) }, observer: {} })
      this.#closing.push(() => policies.close())
      policy = key => policies.for(name, key) as never
      void this.#forever(3000, async () => {
        const next = this.#random.pick(live)
        await this.#recorded({ op: 'limits', subject: name, key: '', limits: next }, () =>
          policies.set(name, policyOf(next)),
        )
      })
    }
    const limiter = new RateLimiter({ name, policy, store, deadline: deadlineMs, localShare, denyCache, observer: {} })
    // Until Redis has answered for the first time, a decision may take longer.
    await limiter.peek('first').catch(() => {})
    return limiter
  }

  async #decide(use: Use): Promise<void> {
    const { subject, keys, costs, changes, pauseMs } = use
    const limiter = await this.#limiter(use)
    const random = this.#random
    const one = async () => {
      const about = { subject: subject.name, key: `k${random.integer(1, keys)}` }
      const { key } = about
      const change = changes.length > 0 && random.integer(1, 8) === 1 ? random.pick(changes) : undefined
      const units = random.integer(1, costs)
      if (change === 'block') {
        const blockMs = random.integer(50, 2000)
        await this.#recorded({ ...about, op: 'block', blockMs }, () => limiter.block(key, blockMs))
      } else if (change === 'unblock') await this.#recorded({ ...about, op: 'unblock' }, () => limiter.unblock(key))
      else if (change === 'reset') await this.#recorded({ ...about, op: 'reset' }, () => limiter.reset(key))
      else if (change === 'refund') {
        await this.#recorded({ ...about, op: 'refund', units }, () => limiter.refund(key, units))
      } else if (change === 'charge') {
        await this.#recorded({ ...about, op: 'charge', units }, () => limiter.charge(key, units))
      } else {
        const done = await this.#recorded(
          { ...about, op: 'consume', cost: units },
          () => limiter.consume(key, units),
          facts,
        )
        if (change !== 'settle' || !done?.answer.allowed) return
        const kept = random.integer(0, units)
        const begun: Begun = { ...about, op: 'settle', of: done.id, units: kept }
        await this.#recorded(begun, () => limiter.settle(done.answer, kept))
      }
    }
    // Several at once share a call.
    await this.#forever(pauseMs, () => Promise.all(Array.from({ length: random.integer(1, use.atOnce) }, one)))
  }

  async #acquire(use: Use): Promise<void> {
    const { subject, pauseMs, costs, keys } = use
    const limiter = await this.#limiter(use)
    const one = async () => {
      const [cost, timeoutMs, key] = [
        this.#random.integer(1, costs),
        this.#random.integer(100, 4000),
        `k${this.#random.integer(1, keys)}`,
      ]
      const begun: Begun = { op: 'acquire', subject: subject.name, key, cost, timeoutMs }
      await this.#recorded(begun, () => limiter.acquire(key, { cost, timeout: timeoutMs }), facts)
    }
    await this.#forever(pauseMs, () => Promise.all(Array.from({ length: this.#random.integer(1, use.atOnce) }, one)))
  }

  async #rate({ subject, pauseMs }: Use): Promise<void> {
    const { name, limits = [] } = subject
    const rate = new SharedRateLimiter(this.#client, name)
    this.#closing.push(() => rate.close())
    const [{ quota, windowMs }] = limits
    // All set the same; who fails tries again.
    while (this.plan.world.now < this.plan.endsAt) {
      if (
        await rate.trySetRate({ rate: quota, interval: windowMs }).then(
          () => true,
          () => false,
        )
      )
        break
    }
    await this.#forever(pauseMs, async () => {
      const timeoutMs = this.#random.integer(100, 4000)
      const begun: Begun = { op: 'acquire', subject: name, key: name, cost: 1, timeoutMs }
      await this.#recorded(
        begun,
        () => rate.acquire(1, { timeout: timeoutMs }),
        () => ({ allowed: true, source: 'store' }),
      )
    })
  }

  async #semaphore({ subject, pauseMs, costs }: Use): Promise<void> {
    const { name, permits = 1, holdMs = 1000 } = subject
    const semaphore = new Semaphore(this.#client, name, { permits })
    this.#closing.push(() => semaphore.close())
    const random = this.#random
    await this.#forever(pauseMs, async () => {
      const about = { subject: name, key: name, permits: random.integer(1, Math.min(costs, permits)) }
      const timeoutMs = random.integer(100, 4000)
      const held = await this.#recorded(
        { ...about, op: 'hold', timeoutMs },
        () => semaphore.acquire({ permits: about.permits, timeout: timeoutMs, lease: holdMs }),
        ({ token }) => ({ granted: true, token: Number(token) }),
      )
      if (held === undefined) return
      const { id: of, answer: lease } = held
      // Who hears that it has lost its permits holds them no longer.
      lease.signal.addEventListener('abort', () => void this.#recorded({ ...about, op: 'release', of }, async () => {}))
      await this.#pause(random.integer(0, 150))
      if (lease.held) await this.#recorded({ ...about, op: 'release', of }, () => lease.release())
    })
  }

  #queue({ subject, pauseMs }: Use): Promise<void> {
    const { name, holdMs = 1000 } = subject
    const random = this.#random
    const queue = new DelayQueue<number>(this.#client, name, { maxAttempts: 1000 })
    const consumer = queue.consume(
      async delivery => {
        const about = { subject: name, key: delivery.id, attempt: delivery.attempt }
        await this.#recorded({ ...about, op: 'handle' }, () => this.#pause(random.integer(1, 40)))
        await this.#recorded({ ...about, op: 'acknowledge' }, () => delivery.ack())
      },
      { concurrency: 3, visibility: holdMs },
    )
    this.#closing.push(() => consumer.close())
    let sent = 0
    return this.#forever(pauseMs, async () => {
      const id = `${this.process.name}-${++sent}`
      const delayMs = random.integer(0, 1) * random.integer(1, 1000)
      await this.#recorded({ op: 'send', subject: name, key: id, delayMs }, () =>
        queue.push(sent, { id, delay: delayMs }),
      )
    })
  }
}
