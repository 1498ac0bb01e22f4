import { getOrMake } from '../limiter/core/maps.js'
import type { RedisClient } from '../redis/client.js'
import { connectionOf } from '../redis/clients.js'
import { RedisStore } from '../redis/store/redis-store.js'

const STORES = new WeakMap<object, RedisStore>()

/** The store over a client: one for each, so that all limiters of drop-ins share its commands. */
export function storeOver(client: RedisClient): RedisStore {
  return getOrMake(STORES, client, () => new RedisStore(connectionOf(client, 'RedisStore')))
}
