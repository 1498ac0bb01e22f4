import type { Clock } from '../../core/clock.js'
import type { Verdict } from '../../core/decision.js'
import type { Limit, Policy } from '../../core/limit.js'
import { MemoryStore } from '../../stores/memory/memory-store.js'
import { MOST_KEYS } from './key-table.js'

/** One policy under trial: its own counts in its own store, given the same requests as the other policies. */
export class PolicyTrial {
  denied = 0
  deniedKeys = 0
  readonly #deniedById: number[] = []
  readonly #store: MemoryStore
  // Reused for every request, because the store is synchronous and does not keep them.
  readonly #charges: Array<{ key: string; limit: Limit }>

  /** `text`: the policy as it was asked for. */
  constructor(
    readonly text: string,
    readonly policy: Policy,
    clock: Clock,
  ) {
    // Room for all keys that can be counted: an evicted key would be allowed too much.
    this.#store = new MemoryStore({ clock, maxKeys: MOST_KEYS * policy.length })
    this.#charges = policy.map(limit => ({ key: '', limit }))
  }

  deniedOf(id: number): number {
    return this.#deniedById[id] ?? 0
  }

  /** The wait that the policy imposes on this request, in ms, at the current time of the clock; 0: it is allowed. */
  waitOf(key: string, id: number): number {
    while (this.#deniedById.length <= id) this.#deniedById.push(0)
    for (const charge of this.#charges) charge.key = key
    const waitMs = longestWait(this.#store.consume(this.#charges, 1))
    if (waitMs === 0) return 0
    this.denied++
    if (this.#deniedById[id]++ === 0) this.deniedKeys++
    return waitMs
  }

  close(): void {
    this.#store.close()
  }
}

function longestWait(verdicts: readonly Verdict[]): number {
  let waitMs = 0
  for (const verdict of verdicts) if (!verdict.allowed && verdict.retryAfterMs > waitMs) waitMs = verdict.retryAfterMs
  return waitMs
}
