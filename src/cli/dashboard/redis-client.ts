import { createRequire } from 'node:module'
import { join } from 'node:path'
import { SpillwayError } from '../../core/errors.js'
import { type SecureAddress, tlsOptionsOf } from '../redis-address.js'

/** A client that this command opened, and the function that closes it. */
export interface OwnClient {
  readonly client: object
  close(): void
}

/** Opens a client. It connects in the background and again after an outage: the page tells of errors. */
export type Connect = (address: SecureAddress, isCluster: boolean) => OwnClient

interface IoredisClient {
  on(event: 'error', listener: () => void): unknown
  disconnect(): void
}

interface IoredisModule {
  readonly Redis: new (options: object) => IoredisClient
  readonly Cluster: new (nodes: readonly object[], options: object) => IoredisClient
}

interface NodeRedisClient {
  on(event: 'error', listener: () => void): unknown
  connect(): Promise<unknown>
  destroy?(): void
  /** Before version 5. */
  disconnect?(): Promise<void>
}

interface NodeRedisModule {
  createClient(options: object): NodeRedisClient
  createCluster(options: object): NodeRedisClient
}

/** Modules are looked up in the current folder's project, then beside this package. */
const FROM = [join(process.cwd(), 'package.json'), process.argv[1] ?? '']

/** The project's own ioredis or node-redis, because this package includes none. Throws `SpillwayError` if neither is installed. */
export function installedClient(): Connect {
  for (const from of FROM) {
    const ioredis = found<IoredisModule>('ioredis', from)
    if (ioredis !== undefined) return (address, isCluster) => openIoredis(ioredis, address, isCluster)
    const nodeRedis = found<NodeRedisModule>('redis', from)
    if (nodeRedis !== undefined) return (address, isCluster) => openNodeRedis(nodeRedis, address, isCluster)
  }
  throw new SpillwayError(
    'found neither ioredis nor redis (node-redis) in this folder: run it in the folder of your service, or run npm install ioredis first',
  )
}

function openIoredis({ Redis, Cluster }: IoredisModule, address: SecureAddress, isCluster: boolean): OwnClient {
  const { host, port, db, username, password } = address
  const options = { username, password, tls: tlsOptionsOf(address), maxRetriesPerRequest: 1 }
  const client = isCluster
    ? new Cluster([{ host, port }], { redisOptions: options })
    : new Redis({ host, port, db, ...options })
  client.on('error', () => {})
  return { client, close: () => client.disconnect() }
}

function openNodeRedis(module: NodeRedisModule, address: SecureAddress, isCluster: boolean): OwnClient {
  const { host, port, db, username, password } = address
  const tls = tlsOptionsOf(address)
  const login = { username, password }
  const socket = tls === undefined ? {} : { tls: true, ...tls }
  const at = { host, port, ...socket }
  const client = isCluster
    ? module.createCluster({ rootNodes: [{ socket: at }], defaults: { ...login, socket } })
    : module.createClient({ ...login, socket: at, database: db })
  client.on('error', () => {})
  // Not awaited: it is pending for as long as Redis is away.
  client.connect().catch(() => {})
  return {
    client,
    close: () => (client.destroy === undefined ? client.disconnect?.().catch(() => {}) : client.destroy()),
  }
}

function found<Module>(name: string, from: string): Module | undefined {
  try {
    return createRequire(from)(name) as Module
  } catch {
    return undefined
  }
}
