import type { BlockRule, Denials, Strikes } from '../../src/limiter/block-rule.js'
import { countsOf } from '../../src/limiter/foreign-store.js'
import type { Reply } from '../../src/limiter/port.js'
import type { Charge, Store } from '../../src/limiter/store.js'

/** Asks a store as a limiter does: with a reply that is told when the store has decided. */
export function askStore(store: Store, charges: readonly Charge[], cost: number, reply: Reply): void {
  const keys = charges.map(({ key }) => key)
  const [first] = keys
  const same = keys.every(key => key === first)
  countsOf(store)
    .bind(charges)
    .decide('consume', same ? first : keys, cost, reply)
}

/** Counts denials of a charge, as the option `block` over HTTP does. */
export async function strikeIn(store: Store, charge: Charge, denials: Denials, rule: BlockRule): Promise<Strikes> {
  const strikes = await countsOf(store).strike?.(charge, denials, rule)
  if (strikes === undefined) throw new Error('the store does not count denials')
  return strikes
}
