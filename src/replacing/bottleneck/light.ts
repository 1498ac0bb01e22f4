import { Batcher } from './batcher.js'
import { Events } from './events.js'
import { Group } from './group.js'
import { Limiter } from './limiter.js'
import { BottleneckError, type LimiterSettings, STRATEGIES } from './options.js'

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

  constructor(options: LimiterSettings = {}, ...rest: never[]) {
    super(options, rest, undefined)
  }
}

export { Bottleneck as default }
