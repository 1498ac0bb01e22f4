import { Batcher, type BatcherOptions as BatcherSettings } from './batcher.js'
import {
  type ClientsList as Clients,
  type Connection,
  IORedisConnection,
  type IORedisConnectionOptions as IORedisSettings,
  RedisConnection,
  type RedisConnectionOptions as RedisSettings,
} from './connection.js'
import {
  Events,
  type EventInfo as Info,
  type EventInfoDropped as InfoDropped,
  type EventInfoQueued as InfoQueued,
  type EventInfoRetryable as InfoRetryable,
} from './events.js'
import { Group } from './group.js'
import type { Status as JobStatus } from './job.js'
import { type Callback as Called, Limiter, type OpenStore } from './limiter.js'
import {
  BottleneckError,
  type JobOptions as JobSettings,
  type ConstructorOptions as Settings,
  STRATEGIES,
  type StopOptions as StopSettings,
  type Strategy as StrategyNumber,
} from './options.js'
import type { Counts as StatusCounts } from './states.js'

function connect(options: Settings): Connection {
  return options.datastore === 'redis' ? new RedisConnection(options) : new IORedisConnection(options)
}

const openStore: OpenStore = (limiter, options) => {
  const connection = connect(options)
  limiter.connection = connection
  return connection.openStore(limiter, options, true)
}

class BottleneckGroup extends Group<Bottleneck> {
  protected override _make(options: Settings): Bottleneck {
    return new Bottleneck(options)
  }

  protected override _connect(options: Settings): Connection | undefined {
    if (options.datastore !== 'redis' && options.datastore !== 'ioredis') return undefined
    const connection = connect(options)
    connection.on('error', error => void this.Events.trigger('error', error))
    return connection
  }
}

/**
 * The class of bottleneck 2.19.5: a queue of jobs, executed as `maxConcurrent`, `minTime` and a reservoir allow; in
 * this process, or in all processes over Redis. Throws `BottleneckError` for options that are no object.
 *
 * ```ts
 * import Bottleneck from 'spillway/bottleneck'
 * const limiter = new Bottleneck({ maxConcurrent: 5, minTime: 100 })
 * const body = await limiter.schedule(() => fetch('https://api.example.com/').then(response => response.text()))
 * ```
 */
export class Bottleneck extends Limiter {
  static readonly default = Bottleneck
  static readonly Bottleneck = Bottleneck
  static readonly version = '2.19.5'
  static readonly strategy = STRATEGIES
  static readonly BottleneckError = BottleneckError
  static readonly Events = Events
  static readonly Group = BottleneckGroup
  static readonly Batcher = Batcher
  static readonly RedisConnection = RedisConnection
  static readonly IORedisConnection = IORedisConnection

  constructor(options: Settings = {}, ...rest: never[]) {
    super(options, rest, openStore)
  }
}

/** The types of bottleneck 2.19.5, by their names. */
export declare namespace Bottleneck {
  export type ConstructorOptions = Settings
  export type JobOptions = JobSettings
  export type StopOptions = StopSettings
  export type BatcherOptions = BatcherSettings
  export type RedisConnectionOptions = RedisSettings
  export type IORedisConnectionOptions = IORedisSettings
  export type Callback<T> = Called<T>
  export type ClientsList = Clients
  export type GroupLimiterPair = { key: string; limiter: Bottleneck }
  export type Strategy = StrategyNumber
  export type Status = JobStatus
  export type Counts = StatusCounts
  export type EventInfo = Info
  export type EventInfoDropped = InfoDropped
  export type EventInfoQueued = InfoQueued
  export type EventInfoRetryable = InfoRetryable
  export type BottleneckError = InstanceType<typeof Bottleneck.BottleneckError>
  export type Events = InstanceType<typeof Bottleneck.Events>
  export type Group = InstanceType<typeof Bottleneck.Group>
  export type Batcher = InstanceType<typeof Bottleneck.Batcher>
  export type RedisConnection = InstanceType<typeof Bottleneck.RedisConnection>
  export type IORedisConnection = InstanceType<typeof Bottleneck.IORedisConnection>
}

export { Bottleneck as default }
