import { LONGEST_TIMER_MS } from '../../limiter/core/clock.js'
import type { Observer } from '../../limiter/core/observer.js'
import { Emitting } from './events.js'
import type { Limiter } from './limiter.js'
import type { ConnectionLike, LimiterSettings } from './options.js'
import { JobWatch } from './watch.js'

const DEFAULT_TIMEOUT_MS = 300_000

/** What a Group needs of a connection to Redis. */
export interface GroupConnection extends ConnectionLike {
  /** Deletes the state of a limiter; true if there was one. Limiters of other processes are told. */
  deleteState(id: string): Promise<boolean>
  /** The ids of all limiters with state whose id begins so. */
  idsWith(beginning: string): Promise<string[]>
  disconnect(flush?: boolean): Promise<void>
}

export interface GroupEvents<L> {
  // biome-ignore lint/suspicious/noExplicitAny: anything may be thrown.
  error: [error: any]
  created: [limiter: L, key: string]
}

/** A limiter for each key, made when it is first asked for, and forgotten when it has had no jobs for `timeout` ms. */
export abstract class Group<L extends Limiter = Limiter> extends Emitting<GroupEvents<L>> {
  id: string | number
  timeout: number
  datastore: string
  connection: GroupConnection | undefined
  /** The limiters by key. */
  instances: Record<string, L> = Object.create(null)
  limiterOptions: LimiterSettings
  readonly #ownsConnection: boolean
  #sweep: ReturnType<typeof setInterval> | undefined

  /**
   * `options`: for each of its limiters; `id` (default 'group-key') and `timeout` (default 5 minutes) are the group's
   * own.
   */
  constructor(options: LimiterSettings = {}) {
    super()
    this.limiterOptions = options
    this.id = options.id ?? 'group-key'
    this.timeout = options.timeout ?? DEFAULT_TIMEOUT_MS
    const given = (options.connection ?? undefined) as GroupConnection | undefined
    this.#ownsConnection = given === undefined
    this.connection = given ?? this._connect(options)
    this.datastore = this.connection?.datastore ?? 'local'
  }

  protected abstract _make(options: LimiterSettings): L

  /** Its own connection; undefined without Redis. */
  protected abstract _connect(options: LimiterSettings): GroupConnection | undefined

  /** The limiter of a key. The event `created` happens before it is returned for the first time. */
  key(key = ''): L {
    if (this.#sweep === undefined) this.#sweepEvery()
    const known = this.instances[key]
    if (known !== undefined) return known
    const { timeout, connection } = this
    const observer = JobWatch.of(this.limiterOptions.observer, String(this.id), true) as Observer
    const limiter = this._make({ ...this.limiterOptions, id: `${this.id}-${key}`, timeout, connection, observer })
    limiter._deleted = () => {
      if (this.instances[key] === limiter && limiter._isIdle(0)) this.#forget(key, limiter)
    }
    this.instances[key] = limiter
    void this.Events.trigger('created', limiter, key)
    return limiter
  }

  /** Forgets the limiter of a key, and deletes its state in Redis. Resolves to whether there was any. */
  async deleteKey(key = ''): Promise<boolean> {
    const deleted = await this.connection?.deleteState(`${this.id}-${key}`)
    const limiter = this.instances[key]
    if (limiter === undefined) return deleted === true
    await this.#forget(key, limiter)
    return true
  }

  limiters(): { key: string; limiter: L }[] {
    return Object.entries(this.instances).map(([key, limiter]) => ({ key, limiter }))
  }

  keys(): string[] {
    return Object.keys(this.instances)
  }

  /** The keys of all processes; without Redis, of this one. Walks through all keys of the server. */
  async clusterKeys(): Promise<string[]> {
    if (this.connection === undefined) return this.keys()
    const beginning = `${this.id}-`
    return (await this.connection.idsWith(beginning)).map(id => id.slice(beginning.length))
  }

  /** For limiters that are made later. */
  updateSettings(options: LimiterSettings = {}): void {
    this.limiterOptions = { ...this.limiterOptions, ...options }
    this.id = options.id ?? this.id
    if (options.timeout == null) return
    this.timeout = options.timeout
    this.#sweepEvery()
  }

  /** Closes the Redis clients, unless they belong to a `connection` that was given. */
  async disconnect(flush = true): Promise<void> {
    if (this.#ownsConnection) await this.connection?.disconnect(flush)
  }

  async #forget(key: string, limiter: L): Promise<void> {
    delete this.instances[key]
    await limiter.disconnect()
  }

  #sweepEvery(): void {
    clearInterval(this.#sweep)
    const sweep = () => {
      for (const [key, limiter] of Object.entries(this.instances)) {
        if (limiter._isIdle(this.timeout))
          this.#forget(key, limiter).catch(error => limiter.Events.trigger('error', error))
      }
      if (Object.keys(this.instances).length > 0) return
      clearInterval(this.#sweep)
      this.#sweep = undefined
    }
    this.#sweep = setInterval(sweep, Math.max(1, Math.min(this.timeout / 2, LONGEST_TIMER_MS)))
    this.#sweep.unref?.()
  }
}
