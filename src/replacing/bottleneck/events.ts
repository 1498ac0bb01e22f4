import { emitWarning } from '../../limiter/core/warnings.js'

interface Listener {
  readonly hear: unknown
  readonly once: boolean
}

/** The listeners of one object. They are called at once; an error in one of them becomes the event `error`. */
export class Listeners {
  readonly #listeners = new Map<string, readonly Listener[]>()

  add(name: string, hear: unknown, once: boolean): void {
    this.#listeners.set(name, [...(this.#listeners.get(name) ?? []), { hear, once }])
  }

  /** Without a name: all of them. */
  remove(name?: string | null): void {
    if (name == null) this.#listeners.clear()
    else this.#listeners.delete(name)
  }

  /** The number of listeners of an event. */
  listenerCount(name: string): number {
    return this.#listeners.get(name)?.length ?? 0
  }

  /** Whether anybody would notice an event. */
  hears(name: string): boolean {
    return this.#listeners.has(name) || this.#listeners.has('debug')
  }

  /**
   * Calls the listeners of an event. Resolves, when all of them have answered, to the first answer by the order of the
   * listeners that is neither null nor undefined. Never rejects.
   */
  // biome-ignore lint/suspicious/noExplicitAny: what a listener answers is a matter of the event.
  trigger(name: string, ...args: unknown[]): Promise<any> {
    if (name !== 'debug' && this.#listeners.has('debug')) this.#call('debug', [`Event triggered: ${name}`, args])
    return this.#call(name, args)
  }

  async #call(name: string, args: readonly unknown[]): Promise<unknown> {
    const listeners = this.#listeners.get(name)
    if (listeners === undefined) return undefined
    const staying = listeners.filter(({ once }) => !once)
    if (staying.length === 0) this.#listeners.delete(name)
    else if (staying.length < listeners.length) this.#listeners.set(name, staying)
    const answers = await Promise.all(listeners.map(({ hear }) => this.#ask(name, hear, args)))
    return answers.find(answer => answer != null)
  }

  async #ask(name: string, hear: unknown, args: readonly unknown[]): Promise<unknown> {
    try {
      return typeof hear === 'function' ? await hear(...args) : undefined
    } catch (error) {
      if (name === 'error') warn(error)
      // Telling a debug listener of its own error would make it fail again.
      else if (name === 'debug') void this.#call('error', [error])
      else void this.trigger('error', error)
      return null
    }
  }
}

function warn(error: unknown): void {
  emitWarning(
    'SPILLWAY_BOTTLENECK',
    `A listener of Bottleneck's event error failed: ${(error as Error)?.message ?? error}`,
  )
}

// biome-ignore lint/suspicious/noExplicitAny: any object may become an emitter.
type Emitter = Record<string, any>

/**
 * Makes any object an emitter: it gains `on`, `once` and `removeAllListeners`. Throws an Error if it has one of them
 * already.
 */
export class Events extends Listeners {
  constructor(instance: object) {
    super()
    const emitter = instance as Emitter
    if (emitter.on != null || emitter.once != null || emitter.removeAllListeners != null) {
      throw new Error('An Emitter already exists for this object')
    }
    for (const method of ['on', 'once']) {
      emitter[method] = (name: string, hear: unknown) => {
        this.add(name, hear, method === 'once')
        return instance
      }
    }
    emitter.removeAllListeners = (name?: string | null) => this.remove(name)
  }
}

/**
 * The methods of an emitter, on the prototype: a Group has one limiter for each key. `Names`: the arguments of each
 * event's listeners.
 */
export abstract class Emitting<Names extends Record<keyof Names, readonly unknown[]>> {
  readonly Events = new Listeners()

  /** Calls `fn` whenever the event happens. */
  on<Name extends keyof Names & string>(name: Name, fn: (...args: [...Names[Name]]) => unknown): this {
    this.Events.add(name, fn, false)
    return this
  }

  /** Calls `fn` when the event happens next. */
  once<Name extends keyof Names & string>(name: Name, fn: (...args: [...Names[Name]]) => unknown): this {
    this.Events.add(name, fn, true)
    return this
  }

  /** Removes the listeners of an event; without a name, all of them. */
  removeAllListeners(name?: (keyof Names & string) | null): void {
    this.Events.remove(name)
  }
}

/** Of a job, for listeners. */
export interface JobInfo {
  // biome-ignore lint/suspicious/noExplicitAny: as the job was given them.
  readonly args: any[]
  readonly options: {
    readonly id: string
    readonly priority: number
    readonly weight: number
    readonly expiration?: number
  }
}
export interface DroppedInfo extends JobInfo {
  readonly task: (...args: never[]) => unknown
  readonly promise: Promise<unknown>
}
export interface QueuedInfo extends JobInfo {
  readonly reachedHWM: boolean
  readonly blocked: boolean
}
export interface RetryableInfo extends JobInfo {
  /** 0 in the first attempt. */
  readonly retryCount: number
}

// biome-ignore lint/suspicious/noExplicitAny: anything may be thrown, and listeners name what they expect.
type Thrown = any

/** The events of a limiter. */
export interface LimiterEvents {
  /** An error in a listener, or of Redis. */
  error: [error: Thrown]
  /** No job waits any more. */
  empty: []
  /** No job waits, and none runs in any process. */
  idle: []
  /** The reservoir has reached 0. */
  depleted: [empty: boolean]
  /** Somebody has called `publish`. */
  message: [message: string]
  // biome-ignore lint/suspicious/noExplicitAny: for people to read.
  debug: [message: string, info: any]
  dropped: [dropped: DroppedInfo]
  received: [info: JobInfo]
  queued: [info: QueuedInfo]
  /** The job has its place, and will be executed when `minTime` allows. */
  scheduled: [info: JobInfo]
  executing: [info: RetryableInfo]
  /** A listener that returns a number, or a promise of one, has the job executed again after so many ms. */
  failed: [error: Thrown, info: RetryableInfo]
  retry: [message: string, info: RetryableInfo]
  done: [info: RetryableInfo]
}
