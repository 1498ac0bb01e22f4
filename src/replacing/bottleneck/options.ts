import type { Observer } from '../../limiter/core/observer.js'

/** Of a limiter, and of the limiters of a Group. null stands for "not set". */
export interface LimiterSettings {
  /** Most weight that runs at the same time, in all processes together. Default null: unlimited. */
  readonly maxConcurrent?: number | null
  /** Least ms from the launch of one job to that of the next. Default 0. */
  readonly minTime?: number | null
  /** Longest queue, of each process. With one more job the `strategy` decides. Default null: unlimited. */
  readonly highWater?: number | null
  /** What happens at `highWater`. Default `Bottleneck.strategy.LEAK`. */
  readonly strategy?: StrategyNumber | null
  /**
   * Of the strategy BLOCK: for so many ms after the last refused job, jobs are refused. Default 15 × `minTime`, or 5000
   * if that is 0.
   */
  readonly penalty?: number | null
  /** The weight that may still be launched; at 0 none is. Default null: unlimited. */
  readonly reservoir?: number | null
  /**
   * Every so many ms, counted from the limiter's beginning, `reservoir` becomes `reservoirRefreshAmount`. Any number of
   * ms ≥ 1.
   */
  readonly reservoirRefreshInterval?: number | null
  readonly reservoirRefreshAmount?: number | null
  /** Every so many ms `reservoir` grows by `reservoirIncreaseAmount`, up to `reservoirIncreaseMaximum`. */
  readonly reservoirIncreaseInterval?: number | null
  readonly reservoirIncreaseAmount?: number | null
  readonly reservoirIncreaseMaximum?: number | null
  /** Over Redis, limiters of one id are one limiter. Default '<no-id>'. */
  readonly id?: string | number | null
  /** False: the promise of a dropped job never settles. Default true. */
  readonly rejectOnDrop?: boolean | null
  /**
   * True: `counts`, `jobs` and `jobStatus` remember jobs that are done. Takes memory for each of them. Default false.
   */
  readonly trackDoneStatus?: boolean | null
  /** 'local' (default), 'ioredis' (ioredis 5 or 6) or 'redis' (node-redis 4 to 6). */
  readonly datastore?: 'local' | 'redis' | 'ioredis' | (string & {}) | null
  /** Makes the promises of jobs. */
  readonly Promise?: unknown
  /** For the client's constructor. For node-redis also `host` and `port`, as version 2 had them. */
  readonly clientOptions?: unknown
  /** Only of ioredis: the client is `new Redis.Cluster(clusterNodes, clientOptions)`. */
  readonly clusterNodes?: unknown
  /** The module ioredis or redis. Default: it is required. */
  readonly Redis?: unknown
  /**
   * A connection that other limiters use too; then `datastore`, `clientOptions` and `clusterNodes` do not count, and
   * `disconnect` leaves it open.
   */
  readonly connection?: ConnectionLike | null
  /** True: begins by deleting the state of this id in Redis. Default false. */
  readonly clearDatastore?: boolean | null
  /**
   * Over Redis: the state of a limiter that nobody uses is deleted after so many ms; and a process that died gives its
   * places back after so many, but at least 3 s and at most 30 s. Default null: the state stays; 30 s. Of a Group
   * (default 5 minutes): limiters without jobs are forgotten after so many ms.
   */
  readonly timeout?: number | null
  /** Accepted, without effect: nothing here waits for a heartbeat. */
  readonly heartbeatInterval?: number | null
  /** Accepted, without effect: see `timeout`. */
  readonly clientTimeout?: number | null
  /**
   * Only here. Receives `waited`, `held`, `holding` and `level` of the jobs of this process: object 'bottleneck', named
   * by the `id`; of a Group, of all its limiters together, named by the Group's. Default: none. Something else than an
   * observer: `PolicyError`.
   */
  readonly observer?: Observer | null
}

/** Of one job. */
export interface JobSettings {
  /** 0 (first) to 9 (last). Default 5. */
  readonly priority?: number | null
  /** What it counts for in `maxConcurrent` and `reservoir`. An integer ≥ 0. Default 1. */
  readonly weight?: number | null
  /** The job fails when it has executed for so many ms. Its function runs on. Default null: never. */
  readonly expiration?: number | null
  /** Unique among the jobs of a limiter that are not done. Default: a new one. */
  readonly id?: string | number | null
}

export interface StopSettings {
  /** Default true: drops all jobs that do not execute yet. False: executes them. */
  readonly dropWaitingJobs?: boolean | null
  readonly dropErrorMessage?: string | null
  /** The message of the error for jobs that come after `stop`. */
  readonly enqueueErrorMessage?: string | null
}

/** What a limiter needs of a connection. */
export interface ConnectionLike {
  readonly datastore: string
}

export const STRATEGIES = { LEAK: 1, OVERFLOW: 2, OVERFLOW_PRIORITY: 4, BLOCK: 3 } as const
export type StrategyNumber = (typeof STRATEGIES)[keyof typeof STRATEGIES]

/** The settings that all processes share. */
export interface StoreOptions {
  maxConcurrent: number | null
  minTime: number
  highWater: number | null
  strategy: number
  penalty: number | null
  reservoir: number | null
  reservoirRefreshInterval: number | null
  reservoirRefreshAmount: number | null
  reservoirIncreaseInterval: number | null
  reservoirIncreaseAmount: number | null
  reservoirIncreaseMaximum: number | null
}

export const STORE_DEFAULTS: StoreOptions = {
  maxConcurrent: null,
  minTime: 0,
  highWater: null,
  strategy: STRATEGIES.LEAK,
  penalty: null,
  reservoir: null,
  reservoirRefreshInterval: null,
  reservoirRefreshAmount: null,
  reservoirIncreaseInterval: null,
  reservoirIncreaseAmount: null,
  reservoirIncreaseMaximum: null,
}

/** The given options that have a default, and the defaults of the others. */
export function withDefaults<Options extends object>(given: object, defaults: Options): Options {
  const result: Record<string, unknown> = {}
  for (const name in defaults) result[name] = (given as Record<string, unknown>)[name] ?? defaults[name]
  return result as Options
}

/** The given options that have a default. A null where no null makes sense becomes the default. */
export function changesOf<Options extends object>(given: object, defaults: Options): Partial<Options> {
  const result: Record<string, unknown> = {}
  for (const name in defaults) {
    const value = (given as Record<string, unknown>)[name]
    if (value !== undefined) result[name] = value ?? defaults[name]
  }
  return result as Partial<Options>
}

/** Why Bottleneck refused, dropped or failed a job, or refuses an option. */
export class BottleneckError extends Error {}
