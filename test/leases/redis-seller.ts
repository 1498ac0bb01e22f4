import type { Redis } from 'ioredis'
import { RedisSeller } from '../../src/leases/redis-seller.js'
import type { LeaseOrder, LeaseSeller, Sale } from '../../src/leases/seller.js'
import type { LeaseTerms } from '../../src/leases/terms.js'
import { portOf } from '../../src/redis/clients.js'
import { Changes } from '../../src/redis/store/changes.js'
import { ChargeKeys } from '../../src/redis/store/charge-keys.js'
import { StoreScripts } from '../../src/redis/store/store-scripts.js'
import type { ManualClock } from '../../src/testing.js'

/** A seller without a store, by a clock. */
export function redisSeller(client: Redis, prefix: string, clock: ManualClock, terms: LeaseTerms): RedisSeller {
  const port = portOf(client, 'test')
  const keys = new ChargeKeys(prefix, port, 1, () => {})
  const scripts = new StoreScripts(port, keys, () => String(clock.now()))
  const changes = new Changes(scripts)
  return new RedisSeller({ scripts, changes, giveBack: async () => {} }, terms, undefined)
}

export function bought(seller: LeaseSeller, order: LeaseOrder): Promise<Sale> {
  return new Promise((resolve, reject) => seller.buy(order, resolve, reject))
}
