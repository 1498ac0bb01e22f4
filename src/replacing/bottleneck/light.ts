import { Batcher, type BatcherSettings } from './batcher.js'
import { type DroppedInfo, Events, type JobInfo, type QueuedInfo, type RetryableInfo } from './events.js'
import { Group } from './group.js'
import type { JobStatus } from './job.js'
import { alsoOnLimiters, type JobCallback, Limiter } from './limiter.js'
import {
  BottleneckError,
  type JobSettings,
  type LimiterSettings,
  STRATEGIES,
  type StopSettings,
  type StrategyNumber,
} from './options.js'
import type { StatusCounts } from './states.js'

class LightGroup extends Group<Bottleneck> {
  protected override _make(options: LimiterSettings): Bottleneck {
    return new Bottleneck(options)
  }

  protected override _connect({ datastore }: LimiterSettings): undefined {
    if (datastore === 'redis' || datastore === 'ioredis') new Bottleneck({ datastore })
  }
}

/**
 * `spillway/bottleneck` without what opens connections to Redis: for browsers, and for whoever needs it in one process
 * only. A `connection` may be given.
 */
export class Bottleneck extends Limiter {
  static readonly default = Bottleneck
  static readonly Bottleneck = Bottleneck
  static readonly version = '2.19.5'
  static readonly strategy = STRATEGIES
  static readonly BottleneckError = BottleneckError
  static readonly Events = Events
  static readonly Group = LightGroup
  static readonly Batcher = Batcher

  static {
    const { version, strategy, Group } = Bottleneck
    alsoOnLimiters(Bottleneck, { version, strategy, BottleneckError, Group, Batcher })
  }

  constructor(options: LimiterSettings = {}, ...rest: never[]) {
    super(options, rest, undefined)
  }
}

/** The types of `spillway/bottleneck`, but for those of connections. */
export declare namespace Bottleneck {
  export type ConstructorOptions = LimiterSettings
  export type JobOptions = JobSettings
  export type StopOptions = StopSettings
  export type BatcherOptions = BatcherSettings
  export type Callback<T> = JobCallback<T>
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
}

export { Bottleneck as default }
