// One process of a schedule: uses everything at once over its own client, and writes down each operation.
import { Redis } from 'ioredis'
import type { RedisClient } from '../../src/redis/client.js'
import { type Random, randomFrom } from '../../test/support/random.js'
import type { Operation } from '../histories/history.js'
import { type Begun, begin, type Driver, failure, type Use } from '../histories/use.js'
import type { Network } from './network.js'
import type { SimulatedProcess, World } from './world.js'

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

export class Program implements Driver {
  readonly name: string
  readonly client: RedisClient
  readonly random: Random
  readonly #redis: Redis
  readonly #closing: Array<() => Promise<unknown>> = []

  constructor(
    readonly plan: Plan,
    process: SimulatedProcess,
  ) {
    this.name = process.name
    this.random = randomFrom(`${plan.world.seed} ${process.name}`)
    this.#redis = new Redis({
      Connector: plan.network.connectorOf(process) as never,
      protocol: 2,
      disableClientInfo: true,
      retryStrategy: times => Math.min(times * 50, 1000),
      socketTimeout: this.random.pick([undefined, 1000]),
    })
    this.#redis.on('error', () => {})
    this.client = this.#redis as unknown as RedisClient
  }

  /** Ends when the process has closed everything. */
  async run(): Promise<void> {
    const { uses, world, closesAt } = this.plan
    await Promise.all(uses.map(use => begin(use, this)))
    await this.pause(Math.max(0, closesAt - world.now))
    await Promise.all(this.#closing.map(close => close().catch(() => {})))
    this.#redis.disconnect()
  }

  get isEnding(): boolean {
    return this.plan.world.now >= this.plan.endsAt
  }

  onClose(close: () => Promise<unknown>): void {
    this.#closing.push(close)
  }

  pause = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

  async forever(mostMs: number, act: () => Promise<unknown>): Promise<void> {
    const { world, calmAt } = this.plan
    const rest = () => this.pause(this.random.integer(0, world.now < calmAt ? mostMs : 8 * mostMs))
    await rest()
    while (!this.isEnding) {
      await act()
      await rest()
    }
  }

  async recorded<T>(
    begun: Begun,
    act: () => Promise<T>,
    told: (answer: T) => object = () => ({}),
  ): Promise<{ id: number; answer: T } | undefined> {
    const { operations, world } = this.plan
    const id = operations.length
    operations.push({ id, process: this.name, askedAt: world.now, ...begun } as Operation)
    const write = (more: object) => {
      operations[id] = { ...operations[id], answeredAt: world.now, ...more } as Operation
    }
    try {
      const answer = await act()
      write(told(answer))
      return { id, answer }
    } catch (error) {
      write(failure(error))
      return undefined
    }
  }
}
