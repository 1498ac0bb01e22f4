import type { Redis } from 'ioredis'
import { portOf } from '../../../src/redis/clients.js'
import type { LeaseOrder, LeaseSeller, Sale } from '../../../src/stores/leases/seller.js'
import type { LeaseTerms } from '../../../src/stores/leases/terms.js'
import { Changes } from '../../../src/stores/redis/changes.js'
import { ChargeKeys } from '../../../src/stores/redis/charge-keys.js'
import { RedisSeller } from '../../../src/stores/redis/lease-seller.js'
import { ResetChannel } from '../../../src/stores/redis/reset-channel.js'
import { StoreScripts } from '../../../src/stores/redis/store-scripts.js'
import type { ManualClock } from '../../../src/testing.js'

/** A seller without a store, by a clock. */
export function redisSeller(client: Redis, prefix: string, clock: ManualClock, terms: LeaseTerms): RedisSeller {
  const port = portOf(client, 'test')
  const keys = new ChargeKeys(prefix, port, 1, () => {})
  const scripts = new StoreScripts(
    port,
    keys,
    () => String(clock.now()),
    () => {},
  )
  const changes = new Changes(scripts, ResetChannel.of(client, port, prefix), false)
  return new RedisSeller({ scripts, changes, giveBack: async () => {} }, terms, undefined)
}

export function bought(seller: LeaseSeller, order: LeaseOrder): Promise<Sale> {
  return new Promise((resolve, reject) => seller.buy(order, resolve, reject))
}
