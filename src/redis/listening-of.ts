import { PolicyError, shown } from '../core/errors.js'
import type { RedisClient } from './client.js'
import { glideListening, isGlideListener } from './glide/beside.js'
import { ioredisListening, isIoredisListener } from './ioredis/listening.js'
import type { OpenListening } from './listening.js'
import { isNodeRedisListener, nodeRedisListening } from './node-redis/listening.js'

/** Whether `listeningOf` knows how. Not so for a sentinel of node-redis, which gives no connection away, and for GLIDE before 2.3. */
export function canListen(client: RedisClient): boolean {
  return isIoredisListener(client) || isNodeRedisListener(client) || isGlideListener(client)
}

/** Opens listening connections beside this client. Throws `PolicyError` for a client of unknown shape; `user` names the class that was given it. */
export function listeningOf(client: RedisClient, user: string): OpenListening {
  if (isIoredisListener(client)) return ioredisListening(client)
  if (isNodeRedisListener(client)) return nodeRedisListening(client)
  if (isGlideListener(client)) return glideListening(client)
  throw new PolicyError(
    `${user}: client ${shown(client)} gives no connection to listen on: expected a client of ioredis, like new Redis(), or of node-redis, like createClient()`,
  )
}
