import type { RedisClient } from './client.js'
import { glideListening, isGlideListener } from './glide/second-connection.js'
import { ioredisListening, isIoredisListener } from './ioredis/listening.js'
import type { OpenListening } from './listening.js'
import { isNodeRedisListener, nodeRedisListening } from './node-redis/listening.js'

/**
 * Opens listening connections beside this client; undefined if the client provides none, like a node-redis sentinel and GLIDE before
 * 2.3.
 */
export function listeningOf(client: RedisClient): OpenListening | undefined {
  if (isIoredisListener(client)) return ioredisListening(client)
  if (isNodeRedisListener(client)) return nodeRedisListening(client)
  return isGlideListener(client) ? glideListening(client) : undefined
}
