import type { RedisClient } from '../../src/redis/client.js'
import { END_MS } from './redis-server.js'
import { RestFront } from './rest-front.js'

/** Where a server can be reached: itself, or through a proxy. */
export interface Address {
  readonly host: string
  readonly port: number
}

/** The strategy of a client that lost its connection; by default its package's own. */
interface Retries {
  /** Between two attempts; or by how many there have been, which GLIDE is told only of the first. */
  readonly retryMs?: number | ((times: number) => number)
  /** It gives up after so many attempts. Not for GLIDE, which never gives up. */
  readonly attempts?: number
}

interface SentinelGroup {
  readonly sentinels: readonly Address[]
  readonly servers: readonly Address[]
}

/** How the clients of one package connect, and what they can do besides running scripts. */
export interface ClientKind {
  single(server: Address, retries?: Retries): Promise<RedisClient>
  /** `doorOf` gives the address by which a node is reached. Absent where the package has no such client. */
  cluster?(
    cluster: { readonly nodes: readonly Address[] },
    retries?: Retries,
    doorOf?: (node: Address) => Address,
  ): Promise<RedisClient>
  /** Absent where the package has no client that asks sentinels. `servers`: those that `doorOf` knows. */
  sentinel?(group: SentinelGroup, retries?: Retries, doorOf?: (node: Address) => Address): Promise<RedisClient>
  /** Whether a connection to listen on can be opened beside it. */
  readonly listens: boolean
  /** Whether a connection can block beside it. */
  readonly blocks: boolean
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

const pauseAfter = (retryMs: number | ((times: number) => number), times: number) =>
  typeof retryMs === 'number' ? retryMs : retryMs(times)

const addresses = (servers: readonly Address[]) => servers.map(({ host, port }) => ({ host, port }))

const natMap = (nodes: readonly Address[], doorOf: (node: Address) => Address) =>
  Object.fromEntries(nodes.map(node => [`${node.host}:${node.port}`, doorOf(node)]))

export function ioredis({ default: Redis, Cluster }: Ioredis): ClientKind {
  const opened = async (client: IoredisClient) => {
    client.on('error', () => {})
    closers.set(client, () => client.disconnect())
    return client
  }
  const more = { disconnectTimeout: END_MS }
  const strategy = (name: string, { retryMs, attempts = Number.POSITIVE_INFINITY }: Retries) =>
    retryMs === undefined ? {} : { [name]: (times: number) => (times > attempts ? null : pauseAfter(retryMs, times)) }
  return {
    single: ({ host, port }, retries = {}) =>
      opened(new Redis({ host, port, ...more, ...strategy('retryStrategy', retries) })),
    cluster: ({ nodes }, retries = {}, doorOf) =>
      opened(
        new Cluster(addresses(nodes.map(doorOf ?? (node => node))), {
          redisOptions: more,
          ...strategy('clusterRetryStrategy', retries),
          natMap: doorOf && natMap(nodes, doorOf),
        }),
      ),
    sentinel: ({ sentinels, servers }, retries = {}, doorOf) =>
      opened(
        new Redis({
          sentinels: addresses(sentinels),
          name: 'spillway',
          ...more,
          ...strategy('retryStrategy', retries),
          ...strategy('sentinelRetryStrategy', retries),
          natMap: doorOf && natMap(servers, doorOf),
        }),
      ),
    listens: true,
    blocks: true,
  }
}

/** What the versions of node-redis have in common. */
export interface NodeRedis {
  createClient(options: { url: string; socket: object }): NodeRedisClient
  createCluster(options: {
    rootNodes: { url: string }[]
    defaults: object
    nodeAddressMap?: (address: string) => Address
  }): NodeRedisClient
  createSentinel?(options: {
    name: string
    sentinelRootNodes: Address[]
    nodeAddressMap?: (address: string) => Address
  }): NodeRedisClient
}
interface NodeRedisClient {
  readonly isOpen?: boolean
  connect(): Promise<unknown>
  disconnect?(): Promise<unknown> | void
  destroy?(): unknown
  on(event: 'error', listener: () => void): unknown
}

/** Others, like sentinels, have no door. */
const addressMap = (nodes: readonly Address[], doorOf: (node: Address) => Address) => (address: string) => {
  const node = nodes.find(({ host, port }) => address === `${host}:${port}`)
  const [host, port] = address.split(':')
  return node ? doorOf(node) : { host, port: Number(port) }
}

export function nodeRedis({ createClient, createCluster, createSentinel }: NodeRedis): ClientKind {
  const opened = async (client: NodeRedisClient) => {
    client.on('error', () => {})
    await client.connect()
    closers.set(client, () => client.isOpen !== false && (client.destroy ? client.destroy() : client.disconnect?.()))
    return client
  }
  const socket = ({ retryMs, attempts = Number.POSITIVE_INFINITY }: Retries) =>
    retryMs === undefined
      ? {}
      : { reconnectStrategy: (retries: number) => (retries >= attempts ? false : pauseAfter(retryMs, retries)) }
  const url = ({ host, port }: Address) => `redis://${host}:${port}`
  return {
    single: (server, retries = {}) => opened(createClient({ url: url(server), socket: socket(retries) })),
    cluster: ({ nodes }, retries = {}, doorOf) =>
      opened(
        createCluster({
          rootNodes: nodes.map(node => ({ url: url(doorOf ? doorOf(node) : node) })),
          defaults: { socket: socket(retries) },
          nodeAddressMap: doorOf && addressMap(nodes, doorOf),
        }),
      ),
    sentinel:
      createSentinel &&
      (({ sentinels, servers }, _, doorOf) => {
        const nodeAddressMap = doorOf && addressMap(servers, doorOf)
        return opened(
          createSentinel({ name: 'spillway', sentinelRootNodes: addresses(sentinels), ...{ nodeAddressMap } }),
        )
      }),
    listens: true,
    blocks: true,
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
    addresses: Address[]
    requestTimeout: number
    connectionBackoff?: { numberOfRetries: number; factor: number; exponentBase: number; jitterPercent: number }
  }): Promise<{ close(): void }>
}

export function valkeyGlide({ GlideClient, GlideClusterClient, Logger }: Glide, listens: boolean): ClientKind {
  // It prints warnings for errors that the tests make on purpose.
  Logger.setLoggerConfig('off')
  const opened = async (client: { close(): void }) => {
    closers.set(client, () => client.close())
    return client
  }
  const backoff = ({ retryMs }: Retries) =>
    retryMs === undefined
      ? {}
      : { connectionBackoff: { numberOfRetries: 1, factor: pauseAfter(retryMs, 1), exponentBase: 1, jitterPercent: 0 } }
  return {
    single: async (server, retries = {}) =>
      opened(
        await GlideClient.createClient({
          addresses: addresses([server]),
          requestTimeout: PATIENCE_MS,
          ...backoff(retries),
        }),
      ),
    cluster: async ({ nodes }) =>
      opened(await GlideClusterClient.createClient({ addresses: addresses(nodes), requestTimeout: PATIENCE_MS })),
    listens,
    blocks: true,
  }
}

/** What the versions of @upstash/redis have in common. */
export interface Upstash {
  readonly Redis: new (options: object) => object
}

/** Each client has a front of its own. */
export function upstash({ Redis }: Upstash): ClientKind {
  return {
    single: async server => {
      const front = await RestFront.start(server)
      const client = new Redis({ ...front.access, enableTelemetry: false })
      closers.set(client, () => front.stop())
      return client
    },
    listens: false,
    blocks: false,
  }
}

const closers = new Map<RedisClient, () => unknown>()

/** Closes all clients that were opened. */
export async function closeClients(): Promise<void> {
  await Promise.all([...closers.values()].map(close => close()))
  closers.clear()
}
