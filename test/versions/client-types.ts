/** Compiled with the types of older clients by `npm run verify -- versions`, and never run. */
import type { Redis as Redis5 } from 'ioredis5'
import type { createClient as createClient4, createCluster as createCluster4 } from 'redis4'
import type { createClient as createClient5, createSentinel as createSentinel5 } from 'redis5'
import { RedisStore } from '../../src/index.js'

type Clients = [
  Redis5,
  ReturnType<typeof createClient4>,
  ReturnType<typeof createCluster4>,
  ReturnType<typeof createClient5>,
  ReturnType<typeof createSentinel5>,
]

export const stores = (clients: Clients): RedisStore[] => clients.map(client => new RedisStore(client))
