import { PolicyError, shown } from '../core/errors.js'
import { getOrMake } from '../core/get-or-make.js'
import type { ClientPort, RedisClient } from './client.js'
import { glidePort, isGlide } from './glide/port.js'
import { ioredisPort, isIoredis } from './ioredis/port.js'
import { isNodeRedis, nodeRedisPort } from './node-redis/port.js'

const PORTS = new WeakMap<RedisClient, ClientPort>()

/**
 * The port to a client, recognised by its shape; one for each client, shared by all objects. Throws `PolicyError` for
 * anything else; `user` names the class that was given the client.
 */
export function portOf(client: RedisClient, user: string): ClientPort {
  if (typeof client !== 'object' || client === null) throw unknown(client, user)
  return getOrMake(PORTS, client, () => newPort(client, user))
}

function newPort(client: RedisClient, user: string): ClientPort {
  if (isIoredis(client)) return ioredisPort(client)
  if (isNodeRedis(client)) return nodeRedisPort(client)
  if (isGlide(client)) return glidePort(client)
  throw unknown(client, user)
}

function unknown(client: unknown, user: string): PolicyError {
  return new PolicyError(
    `${user}: client ${shown(client)}: expected a client of ioredis or iovalkey, like new Redis('redis://127.0.0.1:6379') or new Cluster([…]), ` +
      "of node-redis, like createClient({ url: 'redis://127.0.0.1:6379' }), createCluster or createSentinel, " +
      'or of @valkey/valkey-glide, like await GlideClient.createClient({ addresses: […] }) or GlideClusterClient',
  )
}
