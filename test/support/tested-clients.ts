import * as upstashRedis from '@upstash/redis'
import * as glide from '@valkey/valkey-glide'
import * as ioredis6 from 'ioredis'
import * as iovalkey from 'iovalkey'
import * as nodeRedis6 from 'redis'
import {
  type ClientKind,
  type Ioredis,
  ioredis,
  type NodeRedis,
  nodeRedis,
  type Upstash,
  upstash,
  valkeyGlide,
} from './redis-clients.js'

/** The newest version of every client in docs/clients.md. The older ones are in test/versions. */
export const CLIENTS: Readonly<Record<string, ClientKind>> = {
  'ioredis 6': ioredis(ioredis6 as unknown as Ioredis),
  'iovalkey 0.4': ioredis(iovalkey as unknown as Ioredis),
  'node-redis 6': nodeRedis(nodeRedis6 as unknown as NodeRedis),
  'GLIDE 2': valkeyGlide(glide, true),
  '@upstash/redis 1': upstash(upstashRedis as unknown as Upstash),
}
