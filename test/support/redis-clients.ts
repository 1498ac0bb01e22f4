import type { RedisClient } from '../../src/redis/client.js'
import type { RedisCluster } from './redis-cluster.js'
import type { RedisSentinel } from './redis-sentinel.js'
import { END_MS, type RedisServer } from './redis-server.js'

/** How the clients of one package connect, and what they can do besides running scripts. */
export interface ClientKind {
  single(server: RedisServer): Promise<RedisClient>
  cluster(cluster: RedisCluster): Promise<RedisClient>
  /** Absent where the package has no client that asks sentinels. */
  sentinel?(group: RedisSentinel): Promise<RedisClient>
  /** Whether a connection to listen on can be opened beside it. */
  readonly listens: boolean
}

/** What the versions of ioredis have in common, and iovalkey. */
export interface Ioredis {
  readonly default: new (options: object) => IoredisClient
  readonly Cluster: new (nodes: { host: string; port: number }[], options: object) => IoredisClient
}
interface IoredisClient {
  on(event: 'error', listener: () => void): unknown
  disconnect(): void
}

const addresses = (servers: readonly RedisServer[]) => servers.map(({ host, port }) => ({ host, port }))

export function ioredis({ default: Redis, Cluster }: Ioredis): ClientKind {
  const opened = async (client: IoredisClient) => {
    client.on('error', () => {})
    closers.set(client, () => client.disconnect())
    return client
  }
  const more = { disconnectTimeout: END_MS }
  return {
    single: ({ host, port }) => opened(new Redis({ host, port, ...more })),
    cluster: ({ nodes }) => opened(new Cluster(addresses(nodes), { redisOptions: more })),
    sentinel: ({ sentinels }) => opened(new Redis({ sentinels: addresses(sentinels), name: 'spillway', ...more })),
    listens: true,
  }
}

/** What the versions of node-redis have in common. */
export interface NodeRedis {
  createClient(options: { url: string }): NodeRedisClient
  createCluster(options: { rootNodes: { url: string }[] }): NodeRedisClient
  createSentinel?(options: { name: string; sentinelRootNodes: { host: string; port: number }[] }): NodeRedisClient
}
interface NodeRedisClient {
  connect(): Promise<unknown>
  disconnect?(): Promise<unknown> | void
  destroy?(): unknown
  on(event: 'error', listener: () => void): unknown
}

export function nodeRedis({ createClient, createCluster, createSentinel }: NodeRedis): ClientKind {
  const opened = async (client: NodeRedisClient) => {
    client.on('error', () => {})
    await client.connect()
    closers.set(client, () => (client.destroy ? client.destroy() : client.disconnect?.()))
    return client
  }
  return {
    single: ({ url }) => opened(createClient({ url })),
    cluster: ({ nodes }) => opened(createCluster({ rootNodes: nodes.map(({ url }) => ({ url })) })),
    sentinel:
      createSentinel &&
      (({ sentinels }) => opened(createSentinel({ name: 'spillway', sentinelRootNodes: addresses(sentinels) }))),
    listens: true,
  }
}

/** By itself GLIDE gives a request up after 250 ms, which a busy machine may take. */
const PATIENCE_MS = 5000

/** What the versions of GLIDE have in common. */
export interface Glide {
  readonly Logger: { setLoggerConfig(level: 'off'): void }
  readonly GlideClient: GlideMaker
  readonly GlideClusterClient: GlideMaker
}
interface GlideMaker {
  createClient(options: {
    addresses: { host: string; port: number }[]
    requestTimeout: number
  }): Promise<{ close(): void }>
}

export function valkeyGlide({ GlideClient, GlideClusterClient, Logger }: Glide, listens: boolean): ClientKind {
  // It prints warnings for errors that the tests make on purpose.
  Logger.setLoggerConfig('off')
  const opened = async (client: { close(): void }) => {
    closers.set(client, () => client.close())
    return client
  }
  return {
    single: async server =>
      opened(await GlideClient.createClient({ addresses: addresses([server]), requestTimeout: PATIENCE_MS })),
    cluster: async ({ nodes }) =>
      opened(await GlideClusterClient.createClient({ addresses: addresses(nodes), requestTimeout: PATIENCE_MS })),
    listens,
  }
}

const closers = new Map<RedisClient, () => unknown>()

/** Closes all clients that were opened. */
export async function closeClients(): Promise<void> {
  await Promise.all([...closers.values()].map(close => close()))
  closers.clear()
}
