import type { OpenBlocking } from './blocking.js'
import type { RedisClient } from './client.js'
import { glideBlocking, isGlideBlocker } from './glide/second-connection.js'
import { ioredisBlocking, isIoredisBlocker } from './ioredis/blocking.js'
import { isNodeRedisBlocker, nodeRedisBlocking } from './node-redis/blocking.js'

/**
 * Opens blocking connections beside this client; undefined if the client cannot be duplicated, like a sentinel of node-redis.
 */
export function blockingOf(client: RedisClient): OpenBlocking | undefined {
  if (isIoredisBlocker(client)) return ioredisBlocking(client)
  if (isNodeRedisBlocker(client)) return nodeRedisBlocking(client)
  return isGlideBlocker(client) ? glideBlocking(client) : undefined
}
