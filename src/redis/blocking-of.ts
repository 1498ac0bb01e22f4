import type { OpenBlocking } from './blocking.js'
import type { RedisClient } from './client.js'
import { ioredisBlocking, isIoredisBlocker } from './ioredis/blocking.js'
import { isNodeRedisBlocker, nodeRedisBlocking } from './node-redis/blocking.js'

/**
 * How to block beside this client, on a connection of its own; undefined if it gives none away, as a sentinel of node-redis does
 * not.
 */
export function blockingOf(client: RedisClient): OpenBlocking | undefined {
  if (isIoredisBlocker(client)) return ioredisBlocking(client)
  if (isNodeRedisBlocker(client)) return nodeRedisBlocking(client)
  return undefined
}
