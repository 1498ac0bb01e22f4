import { Batcher, type BatcherSettings } from './batcher.js'
import {
  type Connection,
  type ConnectionClients,
  IORedisConnection,
  type IORedisSettings,
  RedisConnection,
  type RedisSettings,
} from './connection.js'
import { type DroppedInfo, Events, type JobInfo, type QueuedInfo, type RetryableInfo } from './events.js'
import { Group } from './group.js'
import type { JobStatus } from './job.js'
import { alsoOnLimiters, type JobCallback, Limiter, type OpenStore } from './limiter.js'
import {
  BottleneckError,
  type JobSettings,
  type LimiterSettings,
  STRATEGIES,
  type StopSettings,
  type StrategyNumber,
} from './options.js'
import type { StatusCounts } from './states.js'

function connect(options: LimiterSettings): Connection {
  return options.datastore === 'redis' ? new RedisConnection(options) : new IORedisConnection(options)
}

const openStore: OpenStore = (limiter, options) => {
  const connection = connect(options)
  limiter.connection = connection
  return connection.openStore(limiter, options, true)
}

class BottleneckGroup extends Group<Bottleneck> {
  protected override _make(options: LimiterSettings): Bottleneck {
    return new Bottleneck(options)
  }

  protected override _connect(options: LimiterSettings): Connection | undefined {
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

  static {
    const { version, strategy, Group } = Bottleneck
    alsoOnLimiters(Bottleneck, {
      version,
      strategy,
      BottleneckError,
      Group,
      Batcher,
      RedisConnection,
      IORedisConnection,
    })
  }

  constructor(options: LimiterSettings = {}, ...rest: never[]) {
    super(options, rest, openStore)
  }
}

/**
 * The types of bottleneck 2.19.5, by their names. Inside the package they have other names: what bundles declarations
 * drops the `as` of an import, and `type Counts = Counts` would be what is left.
 */
export declare namespace Bottleneck {
  export type ConstructorOptions = LimiterSettings
  export type JobOptions = JobSettings
  export type StopOptions = StopSettings
  export type BatcherOptions = BatcherSettings
  export type RedisConnectionOptions = RedisSettings
  export type IORedisConnectionOptions = IORedisSettings
  export type Callback<T> = JobCallback<T>
  export type ClientsList = ConnectionClients
  export type GroupLimiterPair = { key: string; limiter: Bottleneck }
  export type Strategy = StrategyNumber
  export type Status = JobStatus
  export type Counts = StatusCounts
  export type EventInfo = JobInfo
  export type EventInfoDropped = DroppedInfo
  export type EventInfoQueued = QueuedInfo
  export type EventInfoRetryable = RetryableInfo
  export type BottleneckError = InstanceType<typeof Bottleneck.BottleneckError>
  export type Events = InstanceType<typeof Bottleneck.Events>
  export type Group = InstanceType<typeof Bottleneck.Group>
  export type Batcher = InstanceType<typeof Bottleneck.Batcher>
  export type RedisConnection = InstanceType<typeof Bottleneck.RedisConnection>
  export type IORedisConnection = InstanceType<typeof Bottleneck.IORedisConnection>
}

export { Bottleneck as default }
