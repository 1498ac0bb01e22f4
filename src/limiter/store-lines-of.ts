import { MemoryStore } from '../stores/memory/memory-store.js'
import { RedisStore } from '../stores/redis/redis-store.js'
import type { Store } from '../stores/store.js'
import type { GuardedStore } from './guarded-store.js'
import { MemoryLines } from './memory-lines.js'
import { RedisLines } from './redis-lines.js'
import type { StoreLines } from './store-lines.js'

/** The waiting lines of a limiter over a store; undefined if the store has none. */
export function storeLinesOf(store: Store, guarded: GuardedStore): StoreLines | undefined {
  if (store instanceof MemoryStore) return MemoryLines.of(store)
  if (store instanceof RedisStore) return new RedisLines(store, guarded)
  return undefined
}
