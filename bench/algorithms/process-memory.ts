import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { MemoryStore } from '../../src/limiter/memory/memory-store.js'
import { ManualClock } from '../../src/testing.js'
import { addresses, type State } from './state.js'

const KEYS = 50_000
const START = Date.UTC(2026, 0, 1)

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** Bytes that a `MemoryStore` holds for each key, its text included. */
export function processMemory({ limit, units }: State): number {
  const clock = new ManualClock(START)
  const store = new MemoryStore({ clock })
  const before = held()
  fill(store, clock, limit, units)
  const bytes = held() - before
  if (store.size !== KEYS) throw new Error(`the store holds ${store.size} keys, not ${KEYS}`)
  store.close()
  return bytes / KEYS
}

// A function of its own, so that nothing of the filling is alive when what is left is counted.
function fill(store: MemoryStore, clock: ManualClock, limit: State['limit'], units: number): void {
  const keys = addresses(KEYS)
  for (let unit = 0; unit < units; unit++) {
    clock.set(START + unit)
    for (const key of keys) store.consume([{ key, limit }], 1)
  }
}

function held(): number {
  collect()
  collect()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
