import { getOrMake } from '../limiter/core/maps.js'
import type { ClientPort } from './client.js'

/** Keys of one call: a tenth of a millisecond of the server's time. */
const MOST_KEYS = 100
/** Calls in flight at a time to one node. */
const MOST_CALLS = 20

/**
 * Calls a script for many keys: for those of one slot together, up to 100 at a time, and all nodes of a cluster at the
 * same time. Rejects as the first call does that fails; later ones are then not made.
 */
export async function callByNode<Row extends { readonly key: string }>(
  port: ClientPort,
  rows: Iterable<Row>,
  call: (rows: readonly Row[]) => Promise<void>,
): Promise<void> {
  const bySlot = new Map<number, Row[]>()
  for (const row of rows) getOrMake(bySlot, port.slotOf(row.key), () => []).push(row)
  const byNode = new Map<string, Array<readonly Row[]>>()
  for (const [slot, ofSlot] of bySlot) {
    const calls = getOrMake(byNode, port.serverOf(slot), () => [])
    for (let i = 0; i < ofSlot.length; i += MOST_KEYS) calls.push(ofSlot.slice(i, i + MOST_KEYS))
  }
  let hasFailed = false
  const lane = async (calls: Array<readonly Row[]>) => {
    for (let some = calls.shift(); some !== undefined && !hasFailed; some = calls.shift()) {
      try {
        await call(some)
      } catch (error) {
        hasFailed = true
        throw error
      }
    }
  }
  const lanes = [...byNode.values()].flatMap(calls =>
    Array.from({ length: Math.min(MOST_CALLS, calls.length) }, () => lane(calls)),
  )
  await Promise.all(lanes)
}
