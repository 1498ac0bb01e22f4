import { Alarm } from '../../limiter/core/alarms.js'
import { afterIo } from '../../limiter/core/clock.js'
import type { StoreError } from '../../limiter/core/errors.js'
import { getOrMake } from '../../limiter/core/maps.js'
import type { ClientPort } from '../../redis/client.js'
import { redisFailed } from '../../redis/replies.js'
import { runScript } from '../../redis/script.js'
import { semaphoreRenew } from '../../redis/scripts.js'
import { Asked } from './commands.js'
import type { HeldLease, Keeper } from './lease.js'
import type { SemaphoreLine } from './line.js'

/** Most leases, and most semaphores, in one script call: Redis then works for about a millisecond. */
const MOST_LEASES = 128
const MOST_SEMAPHORES = 8
const SHORTEST_RETRY_MS = 20
const LONGEST_RETRY_MS = 1000

const KEEPERS = new WeakMap<ClientPort, Renewals>()

/**
 * Extends the leases of one client, across its semaphores: one timer for all, and one call for up to eight semaphores
 * that are due; on a cluster one call for each semaphore, because they lie in different slots. It does
 * not keep the process alive.
 */
export class Renewals implements Keeper {
  readonly #leases = new Set<HeldLease>()
  readonly #alarm = new Alarm(() => this.#ring(), false)
  /** The semaphores whose leases are checked after this turn of the event loop. */
  readonly #looks = new Set<SemaphoreLine>()

  private constructor(readonly port: ClientPort) {
    // Redis may have lost leases while the connection was lost.
    port.onReady(() => {
      for (const lease of this.#leases) this.look(lease.home)
    })
  }

  static of(port: ClientPort): Renewals {
    return getOrMake(KEEPERS, port, () => new Renewals(port))
  }

  add(lease: HeldLease): void {
    this.#leases.add(lease)
    this.#alarm.ringBy(nextOf(lease, performance.now()))
  }

  remove(lease: HeldLease): void {
    // The alarm stays set: a process that takes one lease after another would reset it each time, and it does not keep
    // the process alive.
    this.#leases.delete(lease)
  }

  /** Extends one lease now. Rejects with `StoreError`. */
  async renew(lease: HeldLease, leaseMs: number): Promise<boolean> {
    await this.#extend([lease], () => leaseMs)
    this.#plan()
    return lease.held
  }

  /** Checks whether the server still has the leases of a semaphore, without extending them. */
  look(home: SemaphoreLine): void {
    const isFirst = this.#looks.size === 0
    this.#looks.add(home)
    if (!isFirst) return
    afterIo(() => {
      const leases = [...this.#leases].filter(lease => this.#looks.has(lease.home))
      this.#looks.clear()
      for (const batch of batchesOf(leases, this.port.cluster)) this.#extend(batch, () => 0).catch(() => {})
    })
  }

  #ring(): void {
    const now = performance.now()
    const due: HeldLease[] = []
    for (const lease of [...this.#leases]) {
      // Reading `held` marks leases past their deadline as lost.
      if (!lease.held || lease.asking) continue
      // Leases that are due shortly are extended with the others.
      if (lease.renewAt <= now + lease.leaseMs / 12) due.push(lease)
    }
    for (const batch of batchesOf(due, this.port.cluster)) this.#renewBatch(batch)
    this.#plan()
  }

  async #renewBatch(leases: readonly HeldLease[]): Promise<void> {
    for (const lease of leases) lease.asking = true
    const before = performance.now()
    // A failed extension is tried again until the deadline.
    await this.#extend(leases, lease => lease.leaseMs).catch(() => {})
    const now = performance.now()
    for (const lease of leases) {
      lease.asking = false
      if (lease.renewAt > before) continue
      lease.renewAt = now + Math.min(LONGEST_RETRY_MS, Math.max(SHORTEST_RETRY_MS, lease.leaseMs / 12))
    }
    this.#plan()
  }

  /** Rejects with `StoreError` if no lease was answered. */
  async #extend(leases: readonly HeldLease[], msOf: (lease: HeldLease) => number): Promise<void> {
    const asked = new Asked()
    const homes = byHomeOf(leases)
    const keys = [...homes.keys()].flatMap(({ commands }) => commands.keys.slice(1, 3))
    const args = [String(homes.size)]
    const order: Array<[lease: HeldLease, ms: number]> = []
    for (const [{ commands }, ours] of homes) {
      args.push(commands.now, commands.idle, String(ours.length))
      for (const lease of ours) {
        const ms = msOf(lease)
        order.push([lease, ms])
        args.push(lease.id, String(ms))
      }
    }
    const { calls } = leases[0].home.commands
    const answers = (await calls.hold(runScript(this.port, semaphoreRenew, keys, args))) as unknown[]
    const failed = order.map(([lease, ms], i) => this.#read(lease, ms, answers[i], asked))
    const error = failed.find(one => one !== undefined)
    if (error !== undefined) throw error
  }

  /** Reads the answer for one lease. Returns an error if the server could not answer for its semaphore. */
  #read(lease: HeldLease, ms: number, answer: unknown, asked: Asked): StoreError | undefined {
    if (typeof answer !== 'number') return redisFailed(lease.home.subject, new Error(String(answer)))
    if (answer < 0) lease.lose('the server has it no longer')
    else if (lease.held) {
      if (ms > 0) lease.extended(answer, asked, ms)
    }
    // The lease was lost by this process's clock while the answer was in flight: nobody uses it, so it may end.
    else if (ms > 0 && lease.lost) lease.home.end(lease).catch(() => {})
    return undefined
  }

  /** Sets the alarm to the first lease that is due or over. */
  #plan(): void {
    const now = performance.now()
    let first = Number.POSITIVE_INFINITY
    for (const lease of this.#leases) first = Math.min(first, nextOf(lease, now))
    this.#alarm.set(first)
  }
}

/** When a lease needs attention: when it must be extended, or when it ends. */
function nextOf(lease: HeldLease, now: number): number {
  const endsAt = now + Math.max(1, lease.leftMs)
  return lease.asking ? endsAt : Math.min(lease.renewAt, endsAt)
}

function byHomeOf(leases: readonly HeldLease[]): Map<SemaphoreLine, HeldLease[]> {
  const groups = new Map<SemaphoreLine, HeldLease[]>()
  for (const lease of leases) getOrMake(groups, lease.home, () => []).push(lease)
  return groups
}

/** The calls that these leases need. `apart`: each semaphore in calls of its own. */
function batchesOf(leases: readonly HeldLease[], apart: boolean): HeldLease[][] {
  const batches: HeldLease[][] = []
  let batch: HeldLease[] = []
  let semaphores = MOST_SEMAPHORES
  for (const ours of byHomeOf(leases).values()) {
    for (let from = 0; from < ours.length; ) {
      if (semaphores === MOST_SEMAPHORES || batch.length === MOST_LEASES || (apart && from === 0)) {
        batch = []
        semaphores = 0
        batches.push(batch)
      }
      const some = ours.slice(from, from + MOST_LEASES - batch.length)
      batch.push(...some)
      semaphores++
      from += some.length
    }
  }
  return batches
}
