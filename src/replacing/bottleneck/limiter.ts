import { realTiming } from '../../limiter/core/alarms.js'
import { Emitting, type LimiterEvents } from './events.js'
import { DONE, Job, type JobStatus, PRIORITIES, type PromiseMaker, STATUSES } from './job.js'
import { LocalStore } from './local-store.js'
import {
  BottleneckError,
  changesOf,
  type JobSettings,
  type LimiterSettings,
  STORE_DEFAULTS,
  type StopSettings,
  withDefaults,
} from './options.js'
import { Scheduler } from './scheduler.js'
import type { StatusCounts } from './states.js'
import type { Errand, LimiterStore } from './store.js'
import { JobWatch } from './watch.js'

const UPGRADE =
  'Bottleneck v2 takes a single object argument. Refer to https://github.com/SGrondin/bottleneck#upgrading-to-v2 ' +
  "if you're upgrading from Bottleneck v1."
const STOP_DEFAULTS = {
  enqueueErrorMessage: 'This limiter has been stopped and cannot accept new jobs.',
  dropWaitingJobs: true,
  dropErrorMessage: 'This limiter has been stopped.',
}
const INSTANCE_DEFAULTS = {
  id: '<no-id>' as string | number,
  rejectOnDrop: true,
  trackDoneStatus: false,
  Promise: Promise as unknown,
}
/** What a job gives: its result, or a promise of it. */
export type Result<R> = PromiseLike<R> | R
/** Called with an error or null, then with results. */
// biome-ignore lint/suspicious/noExplicitAny: anything may be thrown.
export type JobCallback<R> = (error: any, ...results: R[]) => void
/** A function that is limited. */
export interface Wrapped<R, A extends unknown[]> {
  (...args: A): Promise<R>
  withOptions(options: JobSettings, ...args: A): Promise<R>
}
/** Opens a store over Redis; the light edition has none, but for limiters that are given a connection. */
export type OpenStore = (limiter: Limiter, options: LimiterSettings) => LimiterStore
interface StoreConnection {
  readonly datastore: string
  openStore: OpenStore
}

/** Programs also read the class's own names from a limiter: `limiter.strategy.LEAK`, `new limiter.Group()`. */
export function alsoOnLimiters(made: { prototype: object }, names: object): void {
  const property = (value: unknown) => ({ value, writable: true, enumerable: false, configurable: true })
  for (const [name, value] of Object.entries(names)) Object.defineProperty(made.prototype, name, property(value))
}

/** A limiter, as its users see it. */
export class Limiter extends Emitting<LimiterEvents> {
  id: string | number
  rejectOnDrop: boolean
  trackDoneStatus: boolean
  datastore: string
  connection: object | undefined
  readonly _store: LimiterStore
  /** Set by the Group that made it: another process has deleted the limiter's state. */
  _deleted: (() => void) | undefined
  readonly _watch: JobWatch
  Promise: PromiseMaker
  chained: Limiter | null = null
  readonly #scheduler = new Scheduler(this)

  constructor(options: LimiterSettings, rest: readonly unknown[], openStore: OpenStore | undefined) {
    super()
    if (options === null || typeof options !== 'object' || rest.length > 0) throw new BottleneckError(UPGRADE)
    const own = withDefaults(options, INSTANCE_DEFAULTS)
    this.id = own.id
    this.rejectOnDrop = own.rejectOnDrop
    this.trackDoneStatus = own.trackDoneStatus
    this.Promise = own.Promise as PromiseMaker
    this._watch = JobWatch.of(options.observer, String(this.id))
    const connection = (options.connection ?? undefined) as StoreConnection | undefined
    this.connection = connection
    this.datastore = connection?.datastore ?? options.datastore ?? 'local'
    if (connection !== undefined) this._store = connection.openStore(this, options)
    else if (this.datastore === 'local') {
      const settings = withDefaults(options, STORE_DEFAULTS)
      this._store = new LocalStore(settings, options.timeout ?? null, `b_${this.id}`, message => this._hear(message))
    } else if (this.datastore !== 'redis' && this.datastore !== 'ioredis') {
      throw new BottleneckError(`Invalid datastore type: ${this.datastore}`)
    } else if (openStore === undefined) {
      throw new BottleneckError(
        `datastore '${this.datastore}': expected the import 'spillway/bottleneck' instead of its light edition`,
      )
    } else this._store = openStore(this, options)
  }

  /** Resolves to the Redis clients, `{}` without Redis, when jobs can be decided. It need not be awaited. */
  ready(): Promise<object> {
    return this._store.ready
  }

  /** The Redis clients: `{ client, subscriber }`; `{}` without Redis. */
  clients(): object {
    return this._store.clients
  }

  /** The channel of Redis on which the limiter listens. */
  channel(): string {
    return this._store.channel
  }

  /** Sends a text to all limiters of this id, which hear it as the event `message`. */
  publish(message: unknown): Promise<void> {
    return this._store.publish(String(message))
  }

  /**
   * Closes the Redis clients, unless they belong to a `connection` that was given. `flush`, default true: waits for
   * what was sent. Jobs that wait over Redis stay where they are.
   */
  disconnect(flush = true): Promise<void> {
    this.#scheduler.rest()
    return this._store.disconnect(flush)
  }

  /** Jobs that are executed here wait in that limiter, too. Without one: no longer. */
  chain(limiter?: Limiter | null): this {
    this.chained = limiter ?? null
    return this
  }

  /** The number of jobs that wait in this process; of one priority. */
  queued(priority?: number): number {
    return priority == null ? this.#scheduler.queue.length : this.#scheduler.queue.of(priority)
  }

  /** The number of jobs that wait in all processes. */
  clusterQueued(): Promise<number> {
    return this.#errand({ verb: 'queued' })
  }

  /** True if no job waits. */
  empty(): boolean {
    return this.#scheduler.isEmpty
  }

  /** The weight of the jobs that run, in all processes. */
  running(): Promise<number> {
    return this.#errand({ verb: 'running' })
  }

  /** The weight of all jobs that have ended, in all processes. */
  done(): Promise<number> {
    return this.#errand({ verb: 'done' })
  }

  /** null: unlimited. */
  currentReservoir(): Promise<number | null> {
    return this.#errand({ verb: 'reservoir' })
  }

  /** Resolves to the new reservoir. */
  incrementReservoir(by = 0): Promise<number> {
    return this.#errand({ verb: 'add', value: by })
  }

  /** Whether a job of this weight would be launched at once. */
  check(weight = 1): Promise<boolean> {
    return this.#errand({ verb: 'check', value: weight })
  }

  /** Over Redis the new settings hold for all processes. Jobs that are launched already keep their moment. */
  async updateSettings(options: LimiterSettings = {}): Promise<this> {
    await this.#errand({ verb: 'set', changes: changesOf(options, STORE_DEFAULTS) })
    Object.assign(this, changesOf(options, INSTANCE_DEFAULTS))
    return this
  }

  /** null: no job has this id. */
  jobStatus(id: string | number): JobStatus | null {
    return this.#scheduler.states.statusOf(id)
  }

  /** The ids of the jobs, as text; of those in one state. */
  jobs(status?: string | null): string[] {
    return this.#scheduler.states.ids(status, this.#statuses())
  }

  /** The number of jobs in each state. */
  counts(): StatusCounts {
    return this.#scheduler.states.counts(this.#statuses())
  }

  #statuses(): readonly JobStatus[] {
    return this.trackDoneStatus ? STATUSES : STATUSES.slice(0, DONE)
  }

  /** True if no job is in any state before DONE, and the limiter was not used for so many ms. */
  _isIdle(forMs: number): boolean {
    return !this.#scheduler.isBusy && performance.now() - this.#scheduler.usedAt > forMs
  }

  /** Asks the store: room for jobs may have come. */
  _ask(): void {
    if (this.#scheduler.queue.length > 0) this.#scheduler.ask()
  }

  /** Tells the store that no jobs wait here any more. */
  _leave(): Promise<unknown> {
    return this.#errand({ verb: 'leave' })
  }

  /** A message from the limiter's channel. */
  _hear(message: string): void {
    void this.Events.trigger('message', message)
  }

  /** Runs a function that calls back: `submit([options,] fn, …args, callback)`. */
  submit<A extends unknown[], R>(
    fn: (...args: [...A, JobCallback<R>]) => void,
    ...args: [...A, JobCallback<R> | null]
  ): void
  submit<A extends unknown[], R>(
    options: JobSettings,
    fn: (...args: [...A, JobCallback<R>]) => void,
    ...args: [...A, JobCallback<R> | null]
  ): void
  submit(...args: unknown[]): void | Promise<boolean> {
    const [options, fn, rest] = splitOptions(args)
    const callback = rest.pop()
    const task = (...given: unknown[]) =>
      new this.Promise<unknown>((resolve, reject) => {
        fn(...given, (...results: unknown[]) => (results[0] == null ? resolve : reject)(results))
      })
    const job = new Job(task, rest, options, this.Promise)
    const call = (results: readonly unknown[]) => {
      if (typeof callback === 'function') callback(...results)
    }
    job.promise.then(
      results => call(results as readonly unknown[]),
      error => call(Array.isArray(error) ? error : [error]),
    )
    // Nothing is to be decided any more, and the original returns nothing.
    if (this.#scheduler.stopped !== undefined) return this.#scheduler.receive(job)
    return new this.Promise<boolean>(resolve => {
      job.decided = resolve
      this.#scheduler.receive(job)
    })
  }

  /** Runs a function that gives a promise or a value: `schedule([options,] fn, …args)`. */
  schedule<R, A extends unknown[] = []>(fn: (...args: A) => Result<R>, ...args: A): Promise<R>
  schedule<R, A1>(fn: (a1: A1) => Result<R>, a1: A1): Promise<R>
  schedule<R, A1, A2>(fn: (a1: A1, a2: A2) => Result<R>, a1: A1, a2: A2): Promise<R>
  schedule<R, A1, A2, A3>(fn: (a1: A1, a2: A2, a3: A3) => Result<R>, a1: A1, a2: A2, a3: A3): Promise<R>
  schedule<R, A extends unknown[] = []>(options: JobSettings, fn: (...args: A) => Result<R>, ...args: A): Promise<R>
  schedule<R, A1>(options: JobSettings, fn: (a1: A1) => Result<R>, a1: A1): Promise<R>
  schedule<R, A1, A2>(options: JobSettings, fn: (a1: A1, a2: A2) => Result<R>, a1: A1, a2: A2): Promise<R>
  schedule<R, A1, A2, A3>(
    options: JobSettings,
    fn: (a1: A1, a2: A2, a3: A3) => Result<R>,
    a1: A1,
    a2: A2,
    a3: A3,
  ): Promise<R>
  schedule(...args: unknown[]): Promise<unknown> {
    const [options, task, rest] = splitOptions(args)
    const job = new Job(task, rest, options, this.Promise)
    this.#scheduler.receive(job)
    return job.promise
  }

  /** The same function, limited. Its `withOptions` takes job options before the arguments. */
  wrap<R, A extends unknown[] = []>(fn: (...args: A) => Result<R>): Wrapped<R, A>
  wrap<R, A1>(fn: (a1: A1) => Result<R>): Wrapped<R, [A1]>
  wrap<R, A1, A2>(fn: (a1: A1, a2: A2) => Result<R>): Wrapped<R, [A1, A2]>
  wrap<R, A1, A2, A3>(fn: (a1: A1, a2: A2, a3: A3) => Result<R>): Wrapped<R, [A1, A2, A3]>
  wrap(fn: (...args: unknown[]) => unknown): unknown {
    const limiter = this
    return Object.assign(
      function (this: unknown, ...args: unknown[]) {
        return limiter.schedule(fn.bind(this), ...args)
      },
      { withOptions: (options: JobSettings, ...args: unknown[]) => limiter.schedule(options, fn, ...args) },
    )
  }

  /** Takes no more jobs, and resolves when the last one has ended. */
  stop(options: StopSettings = {}): Promise<void> {
    const scheduler = this.#scheduler
    if (scheduler.stopped !== undefined) {
      return new this.Promise((_, reject) => reject(new BottleneckError('stop() has already been called')))
    }
    const { dropWaitingJobs, dropErrorMessage, enqueueErrorMessage } = withDefaults(options, STOP_DEFAULTS)
    const whenLeft = (left: number) => new this.Promise<void>(resolve => scheduler.states.whenLeft(left, resolve))
    let stopped: Promise<void>
    if (dropWaitingJobs) {
      scheduler.dropWaiting(dropErrorMessage)
      // Those who were rejected hear of it first.
      stopped = new this.Promise<void>(resolve => realTiming.nextTurn(() => resolve(whenLeft(0) as never)))
    } else {
      // The last job; it waits for the others that execute.
      stopped = this.schedule({ priority: PRIORITIES - 1, weight: 0 }, () => whenLeft(1))
    }
    scheduler.stopped = enqueueErrorMessage
    return stopped
  }

  #errand<Result>(errand: Pick<Errand, 'verb' | 'value' | 'changes'>): Promise<Result> {
    return new this.Promise<Result>((resolve, reject) => {
      this.#scheduler.run({ ...errand, resolve: resolve as Errand['resolve'], reject })
    })
  }
}

type AnyFunction = (...args: unknown[]) => unknown

function splitOptions(args: readonly unknown[]): [options: JobSettings, fn: AnyFunction, rest: unknown[]] {
  if (typeof args[0] === 'function') return [{}, args[0] as AnyFunction, args.slice(1)]
  return [(args[0] ?? {}) as JobSettings, args[1] as AnyFunction, args.slice(2)]
}
