import type { Observer } from '../core/observer.js'
import { OutageWarnings } from '../core/outage-warnings.js'
import { redisWarnings } from '../redis/port-of.js'
import { MemoryStore } from '../stores/memory/memory-store.js'
import { RedisStore } from '../stores/redis/redis-store.js'
import type { Store } from '../stores/store.js'
import type { StoreFailure } from './fallback.js'

const MEANWHILE: Record<StoreFailure, string> = {
  local: "each process counts alone (onStoreFailure: 'local')",
  open: "every request is allowed (onStoreFailure: 'open')",
  closed: "every request is denied (onStoreFailure: 'closed')",
}

/**
 * The default observer: turns an outage of the store into process warnings. All that
 * asks one client or store shares the warnings. undefined for a store in this process, which has no outages.
 */
export function storeObserver(store: Store, onStoreFailure: StoreFailure): Observer | undefined {
  if (store instanceof MemoryStore) return undefined
  const meanwhile = MEANWHILE[onStoreFailure]
  const warnings =
    store instanceof RedisStore
      ? redisWarnings(store.client, meanwhile)
      : new OutageWarnings(store, () => nameOf(store), meanwhile)
  let last: Error | undefined
  return {
    storeFailed(error) {
      last = error
    },
    decided({ degraded, source }) {
      if (degraded) warnings.failed(last)
      else if (source !== 'deny-cache') warnings.answered()
    },
    breakerOpened: error => warnings.breakerOpened(error),
    breakerClosed: () => warnings.answered(),
  }
}

function nameOf(store: Store): string {
  const name = store.constructor?.name
  return name === undefined || name === 'Object' ? 'the store' : `the store ${name}`
}
