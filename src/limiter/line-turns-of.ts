import { MemoryStore } from '../stores/memory/memory-store.js'
import { RedisStore } from '../stores/redis/redis-store.js'
import type { Store } from '../stores/store.js'
import type { GuardedStore } from './guarded-store.js'
import type { LineTurns } from './line-turns.js'
import { MemoryTurns } from './memory-turns.js'
import { RedisTurns } from './redis-turns.js'

/** The waiting lines of a limiter over a store; undefined if the store has none. */
export function lineTurnsOf(store: Store, guarded: GuardedStore, deadlineMs: number): LineTurns | undefined {
  if (store instanceof MemoryStore) return MemoryTurns.of(store)
  if (store instanceof RedisStore) return new RedisTurns(store, guarded, deadlineMs)
  return undefined
}
