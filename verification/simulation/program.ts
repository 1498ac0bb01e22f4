// One process of a schedule: uses everything at once over its own client, and writes down each operation.
import { Redis } from 'ioredis'
import type { RedisClient } from '../../src/redis/client.js'
import { type Random, randomFrom } from '../../test/support/random.js'
import type { History, Look, Operation } from '../histories/history.js'
import { type Begun, begin, type Driver, failure, look, type Use } from '../histories/use.js'
import type { Network } from './network.js'
import type { SimulatedProcess, World } from './world.js'

/** What the processes of a schedule share: what they do until when, and where they write it down. */
export interface Plan {
  readonly world: World
  readonly network: Network
  readonly uses: readonly Use[]
  /** The faults have ended; less is done from then on, but for keys that are leased only while they are in demand. */
  readonly calmAt: number
  readonly isHot: boolean
  /** Nothing new is begun then. */
  readonly endsAt: number
  /** Nobody closes anything before, although what was begun has ended. */
  readonly closesAt: number
  readonly operations: Operation[]
  readonly looks: Look[]
  readonly unheard: Array<NonNullable<History['unheard']>[number]>
}

/** Longer than all faults, and than all others wait. */
const PATIENT_MS = 30_000

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
    await this.#close()
  }

  /** Looks what is free of everything, when all others have ended. */
  async look(last: boolean): Promise<void> {
    const { uses, looks } = this.plan
    await Promise.all(uses.map(use => look(use, this, last, found => looks.push(found))))
    await this.#close()
  }

  async #close(): Promise<void> {
    const { unheard, world } = this.plan
    const isConnected = () => this.#redis.status === 'ready'
    const wasConnected = isConnected()
    await Promise.all(this.#closing.map(close => close().catch(() => {})))
    if (!(wasConnected && isConnected())) unheard.push({ process: this.name, endedAt: world.now })
    this.#redis.disconnect()
  }

  get isEnding(): boolean {
    return this.now() >= this.plan.endsAt
  }

  now(): number {
    return this.plan.world.now
  }

  /** Some are patient: if they are not served, something is wrong. */
  timeoutMs(): number {
    const ms = this.random.integer(100, 4000)
    return this.random.integer(1, 8) === 1 ? PATIENT_MS : ms
  }

  onClose(close: () => Promise<unknown>): void {
    this.#closing.push(close)
  }

  pause = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

  async forever(mostMs: number, act: () => Promise<unknown>): Promise<void> {
    const { world, calmAt } = this.plan
    const { isHot } = this.plan
    const rest = () => this.pause(this.random.integer(0, world.now < calmAt || isHot ? mostMs : 8 * mostMs))
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
