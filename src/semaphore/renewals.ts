import { StoreError } from '../core/errors.js'
import type { ClientPort } from '../redis/client.js'
import { runScript } from '../redis/run-script.js'
import { semaphoreRenew } from '../redis/scripts.js'
import { Alarm } from '../waiting/alarm.js'
import type { SemaphoreCommands } from './commands.js'
import type { HeldLease, Keeper } from './lease.js'

/** As many as a script call takes at most. */
const MOST_LEASES = 128
const SHORTEST_RETRY_MS = 20
const LONGEST_RETRY_MS = 1000

const KEEPERS = new WeakMap<ClientPort, Renewals>()

/**
 * Keeps the leases of one client alive, whatever semaphores they are of: one timer for all, and one call for all that are due; on a
 * cluster one call for each semaphore, since they lie in different slots. It does not keep the process alive.
 */
export class Renewals implements Keeper {
  readonly #leases = new Set<HeldLease>()
  readonly #alarm = new Alarm(() => this.#ring(), false)
  #ringsAt = Number.POSITIVE_INFINITY

  private constructor(readonly port: ClientPort) {}

  static of(port: ClientPort): Renewals {
    let keeper = KEEPERS.get(port)
    if (keeper === undefined) {
      keeper = new Renewals(port)
      KEEPERS.set(port, keeper)
    }
    return keeper
  }

  add(lease: HeldLease): void {
    this.#leases.add(lease)
    this.#ringBy(nextOf(lease, performance.now()))
  }

  remove(lease: HeldLease): void {
    // The alarm stays: who takes one lease after the other would set it each time, and it keeps nothing alive.
    this.#leases.delete(lease)
  }

  /** Extends one now. Rejects with `StoreError`. */
  async renew(lease: HeldLease, leaseMs: number): Promise<boolean> {
    await this.#extend([lease], () => leaseMs)
    this.#plan()
    return lease.held
  }

  /** Looks whether the server still has the leases of a semaphore, without extending them. */
  look(home: SemaphoreCommands): void {
    const leases = [...this.#leases].filter(lease => lease.home === home)
    for (const batch of batchesOf(leases, false)) this.#extend(batch, () => 0).catch(() => {})
  }

  #ring(): void {
    this.#ringsAt = Number.POSITIVE_INFINITY
    const now = performance.now()
    const due: HeldLease[] = []
    for (const lease of [...this.#leases]) {
      // Asking loses what has passed its deadline.
      if (!lease.held || lease.asking) continue
      // What would be due soon comes along.
      if (lease.renewAt <= now + lease.leaseMs / 12) due.push(lease)
    }
    for (const batch of batchesOf(due, this.port.cluster)) this.#renewBatch(batch)
    this.#plan()
  }

  async #renewBatch(leases: readonly HeldLease[]): Promise<void> {
    for (const lease of leases) lease.asking = true
    try {
      await this.#extend(leases, lease => lease.leaseMs)
    } catch {
      // Tried again until the deadline.
      const now = performance.now()
      for (const lease of leases) {
        const pause = Math.min(LONGEST_RETRY_MS, Math.max(SHORTEST_RETRY_MS, lease.leaseMs / 12))
        if (lease.renewAt < Number.POSITIVE_INFINITY) lease.renewAt = now + pause
      }
    }
    for (const lease of leases) lease.asking = false
    this.#plan()
  }

  async #extend(leases: readonly HeldLease[], msOf: (lease: HeldLease) => number): Promise<void> {
    const askedAt = performance.now()
    const homes = byHomeOf(leases)
    const keys = [...homes.keys()].flatMap(home => home.keys)
    const args = [String(homes.size)]
    const order: Array<[lease: HeldLease, ms: number]> = []
    for (const [home, ours] of homes) {
      args.push(home.now, home.idle, String(ours.length))
      for (const lease of ours) {
        const ms = msOf(lease)
        order.push([lease, ms])
        args.push(lease.id, String(lease.token), String(ms))
      }
    }
    let deadlines: number[]
    try {
      deadlines = (await runScript(this.port, semaphoreRenew, keys, args)) as number[]
    } catch (cause) {
      throw new StoreError(`${leases[0].home.subject}: Redis failed: ${(cause as Error)?.message}`, { cause })
    }
    order.forEach(([lease, ms], i) => {
      if (deadlines[i] < 0) lease.lose('the server has it no longer')
      else if (lease.held) {
        if (ms > 0) lease.extended(deadlines[i], askedAt, ms)
      }
      // Lost by our reckoning while the answer was on its way: then nobody holds it, and it need not last.
      else if (ms > 0 && lease.lost) lease.home.release(lease.id, lease.token).catch(() => {})
    })
  }

  /** Rings when the first of all is due, or over. */
  #plan(): void {
    const now = performance.now()
    let first = Number.POSITIVE_INFINITY
    for (const lease of this.#leases) first = Math.min(first, nextOf(lease, now))
    this.#setAlarm(first)
  }

  #ringBy(at: number): void {
    if (at < this.#ringsAt) this.#setAlarm(at)
  }

  #setAlarm(at: number): void {
    this.#ringsAt = at
    this.#alarm.set(at)
  }
}

/** When to see to a lease: when it is to be extended, or when it ends by itself. */
function nextOf(lease: HeldLease, now: number): number {
  const endsAt = now + Math.max(1, lease.leftMs)
  return lease.asking ? endsAt : Math.min(lease.renewAt, endsAt)
}

function byHomeOf(leases: readonly HeldLease[]): Map<SemaphoreCommands, HeldLease[]> {
  const groups = new Map<SemaphoreCommands, HeldLease[]>()
  for (const lease of leases) {
    const group = groups.get(lease.home)
    if (group) group.push(lease)
    else groups.set(lease.home, [lease])
  }
  return groups
}

function batchesOf(leases: readonly HeldLease[], apart: boolean): HeldLease[][] {
  const groups = apart ? [...byHomeOf(leases).values()] : [[...leases]]
  return groups.flatMap(group => {
    const batches: HeldLease[][] = []
    for (let from = 0; from < group.length; from += MOST_LEASES) batches.push(group.slice(from, from + MOST_LEASES))
    return batches
  })
}
