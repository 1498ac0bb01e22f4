import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { ClientPort, RedisClient } from '../../redis/client.js'
import { portOf } from '../../redis/clients.js'
import { runScript } from '../../redis/script.js'
import { bottleneckDelete } from '../../redis/scripts.js'
import { literal, walkKeys } from '../../redis/unlink-all.js'
import { Emitting } from './events.js'
import type { GroupConnection } from './group.js'
import type { Limiter } from './limiter.js'
import { BottleneckError, type LimiterSettings } from './options.js'
import { idOf, keysOf, RedisStore } from './redis-store.js'

export interface RedisSettings {
  /** For the client's constructor; of node-redis also `host`, `port`, `path` and `db`, as version 2 had them. */
  readonly clientOptions?: unknown
  /** A client that exists already. `disconnect` closes it. */
  readonly client?: unknown
  /** The module redis, or ioredis. Default: it is required. */
  readonly Redis?: unknown
}

export interface IORedisSettings extends RedisSettings {
  /** The client is `new Redis.Cluster(clusterNodes, clientOptions)`. */
  readonly clusterNodes?: unknown
}

/** The Redis clients of a connection. */
export interface ConnectionClients {
  // biome-ignore lint/suspicious/noExplicitAny: a client of the user's own version of ioredis or node-redis.
  client?: any
  /** For subscriptions of your own: made when it is first asked for. */
  // biome-ignore lint/suspicious/noExplicitAny: as the client.
  subscriber?: any
}

/** What is used of a client beside its port. */
interface Closable {
  readonly status?: string
  readonly isOpen?: boolean
  readonly isReady?: boolean
  on(event: 'error', listener: (error: unknown) => void): unknown
  duplicate?(): Closable
  connect?(): Promise<unknown>
  quit?(): Promise<unknown>
  close?(): Promise<unknown>
  disconnect?(): unknown
  destroy?(): void
}

/** A promise that may also be called, as the types of bottleneck say. */
type Ready = PromiseLike<ConnectionClients> & (() => Promise<ConnectionClients>)

interface ConnectionEvents {
  // biome-ignore lint/suspicious/noExplicitAny: anything may be thrown.
  error: [error: any]
}

/** A client of Redis that limiters and Groups share. */
export abstract class Connection extends Emitting<ConnectionEvents> implements GroupConnection {
  abstract readonly datastore: 'redis' | 'ioredis'
  readonly client: RedisClient
  /** Limiters that use it, by a name of each. */
  readonly limiters: Record<string, Limiter> = {}
  readonly ready: Ready
  /** Resolves when the client is connected for the first time, or closed. */
  readonly opened: Promise<void>
  readonly port: ClientPort
  isClosed = false
  #subscriber: Closable | undefined
  #closed = () => {}

  constructor(client: unknown) {
    super()
    this.client = client as RedisClient
    this.port = portOf(this.client, 'Bottleneck: client')
    const closable = this.client as unknown as Closable
    closable.on('error', error => void this.Events.trigger('error', error))
    this.opened = new Promise(resolve => {
      this.#closed = resolve
      if (this.port.state() === 'ready') resolve()
      else this.port.onReady(resolve)
    })
    this.port.open()
    // A client of node-redis connects when its owner says so.
    if (closable.isOpen === false) closable.connect?.().catch(error => void this.Events.trigger('error', error))
    const ready = this.opened.then(() => {
      if (this.isClosed) throw new BottleneckError('This connection was closed before it was open')
      return this.clients
    })
    ready.catch(() => {})
    this.ready = Object.assign(
      () => ready,
      // biome-ignore lint/suspicious/noThenProperty: it stands for the promise, which bottleneck had here.
      { then: ready.then.bind(ready) },
    ) as Ready
  }

  /** `{ client, subscriber }` */
  get clients(): ConnectionClients {
    const connection = this
    return {
      client: this.client,
      get subscriber() {
        return connection.#subscription()
      },
    }
  }

  #subscription(): Closable | undefined {
    if (this.#subscriber === undefined && !this.isClosed) {
      const client = this.client as unknown as Closable
      this.#subscriber = client.duplicate?.()
      this.#subscriber?.on('error', error => void this.Events.trigger('error', error))
      if (this.#subscriber?.isOpen === false) this.#subscriber.connect?.().catch(() => {})
    }
    return this.#subscriber
  }

  openStore(limiter: Limiter, options: LimiterSettings, ownsIt = false): RedisStore {
    if (ownsIt) this.on('error', error => void limiter.Events.trigger('error', error))
    return new RedisStore(this, limiter, options, ownsIt)
  }

  async deleteState(id: string): Promise<boolean> {
    await this.opened
    return (await runScript(this.port, bottleneckDelete, keysOf(id), ['tell'])) === 1
  }

  async idsWith(beginning: string): Promise<string[]> {
    await this.opened
    // The pattern for any id, with the beginning in its place.
    const [before, after] = keysOf('\0')[0].split('%00')
    const own = keysOf(beginning)[0].slice(before.length, -after.length)
    const ids: string[] = []
    await walkKeys(this.client, `${literal(before + own)}*${literal(after)}`, async key => {
      ids.push(idOf(key))
    })
    return ids
  }

  /** Closes the clients. `flush`, default true: waits for what was sent. */
  async disconnect(flush = true): Promise<void> {
    if (this.isClosed) return
    await Promise.all(Object.values(this.limiters).map(({ _store }) => (_store as RedisStore).leave()))
    this.isClosed = true
    this.#closed()
    const clients = [this.client as unknown as Closable, ...(this.#subscriber === undefined ? [] : [this.#subscriber])]
    await Promise.all(clients.map(client => close(client, flush)))
  }
}

async function close(client: Closable, flush: boolean): Promise<void> {
  const isConnected = client.status === 'ready' || client.isReady === true
  try {
    if (flush && isConnected) await (client.close ?? client.quit)?.call(client)
    else if (client.isOpen !== false) await (client.destroy ?? client.disconnect)?.call(client)
  } catch {
    // It was closed already.
  }
}

/** A connection of ioredis 5 or 6. */
export class IORedisConnection extends Connection {
  override readonly datastore = 'ioredis'

  constructor({ client, clientOptions, clusterNodes, Redis }: IORedisSettings = {}) {
    super(client ?? ioredisClient(moduleOf('ioredis', Redis), clientOptions ?? {}, clusterNodes))
  }
}

/** A connection of node-redis 4 to 6. */
export class RedisConnection extends Connection {
  override readonly datastore = 'redis'

  constructor({ client, clientOptions, Redis }: RedisSettings = {}) {
    super(client ?? moduleOf('redis', Redis).createClient?.(ofNodeRedis(clientOptions ?? {})))
  }
}

/** Of ioredis the class itself, of node-redis an object; as an ES module either may stand under `default`. */
interface ClientModule {
  new (options: unknown): unknown
  readonly Cluster: new (nodes: unknown, options: unknown) => unknown
  readonly default?: ClientModule
  readonly createClient?: (options: unknown) => unknown
}

function ioredisClient(Redis: ClientModule, options: unknown, nodes: unknown): unknown {
  return nodes == null ? new Redis(options) : new Redis.Cluster(nodes, options)
}

/**
 * The module that was given, or the user's own: nothing else of the package needs it, so that bundles do not look for
 * it.
 */
function moduleOf(name: string, given: unknown): ClientModule {
  const found = (given ?? required(name)) as ClientModule
  return found.createClient === undefined ? (found.default ?? found) : found
}

function required(name: string): unknown {
  try {
    return createRequire(import.meta.url)(name)
  } catch {
    return createRequire(join(process.cwd(), 'index.js'))(name)
  }
}

/** The options of node-redis 2 as later versions expect them. */
function ofNodeRedis(given: unknown): object {
  const { host, port, path, db, auth_pass, ...options } = given as Record<string, unknown>
  const socket = { host, port: port == null ? undefined : Number(port), path }
  const isGiven = Object.values(socket).some(value => value !== undefined)
  return {
    ...options,
    ...(isGiven ? { socket: { ...socket, ...(options.socket as object | undefined) } } : {}),
    ...(db === undefined ? {} : { database: Number(db) }),
    ...(auth_pass === undefined ? {} : { password: auth_pass }),
  }
}
