import { Cluster, Redis } from 'ioredis'
import { createClient, createCluster, createSentinel } from 'redis'
import type { RedisClient } from '../../../src/redis/client.js'
import { olderModule } from '../older.js'
import type { ClientKind, Place } from './scene.js'

export interface LoadClient {
  readonly client: RedisClient
  close(): unknown
}

const host = '127.0.0.1'

/** As docs/operating.md recommends. The client alone decides when it connects again. */
const strategy = (times: number) => Math.min(times * 50, 1000)

/** A client as its users make it: with no options but the address and the recommended strategy. */
export async function makeClient(kind: ClientKind, place: Place): Promise<LoadClient> {
  if (kind === 'node-redis') return nodeRedis(place)
  const lib = kind === 'ioredis' ? { Redis, Cluster } : olderModule<typeof import('ioredis')>('ioredis5')
  return ioredis(place, lib.Redis, lib.Cluster)
}

function ioredis(place: Place, Single: typeof Redis, Many: typeof Cluster): LoadClient {
  const nodes = place.ports.map(port => ({ host, port }))
  const make = () => {
    switch (place.kind) {
      case 'single':
        return new Single({ host, port: place.ports[0], retryStrategy: strategy })
      case 'sentinel':
        return new Single({ sentinels: nodes, name: place.name })
      case 'cluster':
        return new Many(nodes)
    }
  }
  const client = make()
  client.on('error', () => {})
  return { client, close: () => client.disconnect() }
}

async function nodeRedis(place: Place): Promise<LoadClient> {
  const make = () => {
    switch (place.kind) {
      case 'single':
        return createClient({ socket: { host, port: place.ports[0], reconnectStrategy: strategy } })
      case 'sentinel':
        return createSentinel({ name: place.name, sentinelRootNodes: place.ports.map(port => ({ host, port })) })
      case 'cluster':
        return createCluster({ rootNodes: place.ports.map(port => ({ socket: { host, port } })) })
    }
  }
  const client = make()
  client.on('error', () => {})
  await client.connect()
  return { client, close: () => client.destroy() }
}
