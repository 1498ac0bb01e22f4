import * as ioredis5 from 'ioredis5'
import * as ioredis50 from 'ioredis50'
import * as iovalkey02 from 'iovalkey02'
import * as nodeRedis4 from 'redis4'
import * as nodeRedis5 from 'redis5'
import * as nodeRedis46 from 'redis46'
import * as upstash134 from 'upstash134'
import {
  type ClientKind,
  type Ioredis,
  ioredis,
  type NodeRedis,
  nodeRedis,
  type Upstash,
  upstash,
} from '../support/redis-clients.js'

/**
 * The first version of each client that docs/clients.md names, and of each earlier major version the last. The oldest
 * GLIDE is not here: only one version of it can be loaded in a process.
 */
const ALL: Readonly<Record<string, ClientKind>> = {
  'ioredis 5': ioredis(ioredis5 as unknown as Ioredis),
  'ioredis 5.0': ioredis(ioredis50 as unknown as Ioredis),
  'iovalkey 0.2': ioredis(iovalkey02 as unknown as Ioredis),
  'node-redis 5': nodeRedis(nodeRedis5 as unknown as NodeRedis),
  'node-redis 4': nodeRedis(nodeRedis4 as unknown as NodeRedis),
  'node-redis 4.6': nodeRedis(nodeRedis46 as unknown as NodeRedis),
  '@upstash/redis 1.34': upstash(upstash134 as unknown as Upstash),
}

/** One of each client is enough for a gate. */
const ONE = ['ioredis 5.0', 'iovalkey 0.2', 'node-redis 4', '@upstash/redis 1.34']

export const OLDER_CLIENTS =
  process.env.SPILLWAY_VERSIONS === 'one' ? Object.fromEntries(ONE.map(name => [name, ALL[name]])) : ALL
