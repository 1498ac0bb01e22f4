import { getOrMake } from '../core/get-or-make.js'
import type { Observer } from '../core/observer.js'
import { OutageWarnings } from '../core/outage-warnings.js'
import { clientName } from '../redis/port-of.js'
import { MemoryStore } from '../stores/memory/memory-store.js'
import { RedisStore } from '../stores/redis/redis-store.js'
import type { Store } from '../stores/store.js'
import type { StoreFailure } from './fallback.js'

const MEANWHILE: Record<StoreFailure, string> = {
  local: "each process counts alone (onStoreFailure: 'local')",
  open: "every request is allowed (onStoreFailure: 'open')",
  closed: "every request is denied (onStoreFailure: 'closed')",
}

/** By client, if there is one: stores on one server fail together. */
const WARNINGS = new WeakMap<object, OutageWarnings>()

/**
 * The default observer: turns an outage of the store into process warnings. Limiters on one client or
 * store share the warnings. undefined for a store in this process, which has no outages.
 */
export function storeObserver(store: Store, onStoreFailure: StoreFailure): Observer | undefined {
  if (store instanceof MemoryStore) return undefined
  const server = store instanceof RedisStore ? store.client : store
  const warnings = getOrMake(WARNINGS, server, () => new OutageWarnings(() => nameOf(store)))
  const meanwhile = MEANWHILE[onStoreFailure]
  let last: Error | undefined
  return {
    storeFailed(error) {
      last = error
    },
    decided({ degraded, source }) {
      if (degraded) warnings.failed(meanwhile, last)
      else if (source !== 'deny-cache') warnings.answered()
    },
    breakerOpened: error => warnings.breakerOpened(meanwhile, error),
    breakerClosed: () => warnings.answered(),
  }
}

function nameOf(store: Store): string {
  if (store instanceof RedisStore) return `RedisStore at ${clientName(store.client)}`
  const name = store.constructor?.name
  return name === undefined || name === 'Object' ? 'the store' : `the store ${name}`
}
