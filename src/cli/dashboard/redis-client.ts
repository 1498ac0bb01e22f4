import { createRequire } from 'node:module'
import { join } from 'node:path'
import { SpillwayError } from '../../core/errors.js'

/** A client that this command opened, and the function that closes it. */
export interface OwnClient {
  readonly client: object
  close(): Promise<void>
}

interface IoredisModule {
  readonly Redis: new (url: string, options: object) => IoredisClient
}

interface IoredisClient {
  on(event: 'error', listener: () => void): unknown
  disconnect(): void
}

interface NodeRedisModule {
  createClient(options: object): NodeRedisClient
}

interface NodeRedisClient {
  on(event: 'error', listener: () => void): unknown
  connect(): Promise<unknown>
  destroy?(): void
  disconnect?(): Promise<void>
}

/** Modules are looked up in the current folder's project, then beside this package. */
const FROM = [join(process.cwd(), 'package.json'), process.argv[1] ?? '']

/** Connects with the project's own ioredis or node-redis, because this package includes none. Rejects with `SpillwayError` if neither is installed. */
export async function ownClient(url: string): Promise<OwnClient> {
  const ioredis = found<IoredisModule>('ioredis')
  if (ioredis !== undefined) {
    const client = new ioredis.Redis(url, { maxRetriesPerRequest: 1 })
    // The page reports outages.
    client.on('error', () => {})
    return { client, close: async () => client.disconnect() }
  }
  const redis = found<NodeRedisModule>('redis')
  if (redis !== undefined) {
    const client = redis.createClient({ url })
    client.on('error', () => {})
    await client.connect()
    return { client, close: async () => (client.destroy === undefined ? client.disconnect?.() : client.destroy()) }
  }
  throw new SpillwayError(
    'found neither ioredis nor redis (node-redis) in this folder: run it in the folder of your service, or run npm install ioredis first',
  )
}

function found<Module>(name: string): Module | undefined {
  for (const from of FROM) {
    try {
      return createRequire(from)(name) as Module
    } catch {
      // The next place.
    }
  }
  return undefined
}
