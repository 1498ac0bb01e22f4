import { Deadline } from '../../../limiter/core/clock.js'
import { NotInitializedError } from '../../../limiter/core/errors.js'
import { getOrMake } from '../../../limiter/core/maps.js'
import type { ClientPort, RedisClient } from '../../../redis/client.js'
import { portOf } from '../../../redis/clients.js'
import { keyRoot } from '../../../redis/keys.js'
import { runScript } from '../../../redis/script.js'
import { dashboardDead, dashboardLine, dashboardPaused } from '../../../redis/scripts.js'
import type { DeadLetter } from '../../../waiting/queue/dead-letters.js'
import { DelayQueue } from '../../../waiting/queue/delay-queue.js'
import { DEAD, queueKeys } from '../../../waiting/queue/record.js'
import { SharedRateLimiter } from '../../../waiting/rate/shared-rate-limiter.js'
import { type LeaseInfo, Semaphore } from '../../../waiting/semaphore/semaphore.js'
import { withdrawNote } from '../../object-index.js'
import { type HoldRow, leaseReference } from '../records.js'
import type { HolderName, HolderView, QueueCounts, SharedRow } from '../view.js'
import { callByNode } from './redis-calls.js'
import type { Process, Reports } from './reports.js'

/** Most objects that are kept open for inspection. */
const MOST_OBJECTS = 200
const MOST_HOLDERS = 50
const MOST_LETTERS = 20
const MOST_PAYLOAD = 2048
const REPLY_DEADLINE = new Deadline(1000)

/** A payload as it stands in Redis. */
const RAW = { encode: (text: unknown) => String(text), decode: (text: string) => text }

/** Those who hold leases of a semaphore, as Redis tells. */
interface Leases {
  readonly shown: readonly LeaseInfo[]
  readonly more: number
}

/** A row as Redis tells it: the processes tell who the holders are. */
export interface ReadRow {
  readonly row: SharedRow
  readonly leases?: Leases
}

/**
 * Inspects shared rates, semaphores and queues by name, and changes them. Every method rejects with `StoreError` when
 * Redis fails.
 */
export class SharedObjects {
  readonly #port: ClientPort
  readonly #open = new Map<string, { close(): Promise<void> }>()

  constructor(
    readonly client: RedisClient,
    readonly prefix: string,
  ) {
    this.#port = portOf(client, 'dashboard')
  }

  queue(name: string): DelayQueue<string> {
    return this.#object(
      'queue',
      name,
      () => new DelayQueue<string>(this.client, name, { prefix: this.prefix, codec: RAW }),
    )
  }

  rate(name: string): SharedRateLimiter {
    return this.#object('rate', name, () => new SharedRateLimiter(this.client, name, { prefix: this.prefix }))
  }

  semaphore(name: string): Semaphore {
    return this.#object('semaphore', name, () => new Semaphore(this.client, name, { prefix: this.prefix }))
  }

  async queueRow(name: string): Promise<QueueCounts> {
    const [stats, paused] = await Promise.all([
      this.queue(name).stats(),
      runScript(this.#port, dashboardPaused, [queueKeys(this.#root('queue', name))[0]], []),
    ])
    return { name, ...stats, paused: paused === 1 }
  }

  /** How many dead letters each queue has; what was known `before` of one that does not answer. */
  async deadLetters(
    names: readonly string[],
    before: ReadonlyMap<string, number>,
  ): Promise<ReadonlyMap<string, number>> {
    const dead = new Map<string, number>()
    const rows = names.map(name => ({ name, key: queueKeys(this.#root('queue', name))[DEAD] }))
    await callByNode(this.#port, rows, async some => {
      const keys = some.map(({ key }) => key)
      // A node of a cluster that is away says nothing of its own queues only.
      const reply = await REPLY_DEADLINE.hold(runScript(this.#port, dashboardDead, keys, [])).catch(() => [])
      for (const [i, { name }] of some.entries()) dead.set(name, (reply as number[])[i] ?? before.get(name) ?? 0)
    })
    return dead
  }

  /** Payloads hold what keys hold, and more: they are shown only where keys are shown in full. */
  async letters(name: string, withPayloads: boolean): Promise<DeadView[]> {
    const letters = await this.queue(name).dead({ limit: MOST_LETTERS })
    return letters.map(letter => letterView(letter, withPayloads))
  }

  async rateRow(name: string): Promise<ReadRow> {
    const [config, line] = await Promise.all([this.rate(name).getConfig(), this.#line(this.#root('rate', name))])
    if (config === null) return { row: { kind: 'rate', name, waiting: 0 } }
    const { rate, intervalMs, mode } = config
    const row = { kind: 'rate' as const, name, of: rate, intervalMs, mode, ...line }
    // In this case each process counts alone, and the dashboard does not know their counts.
    if (mode === 'per-client') return { row }
    const available = await this.rate(name).availablePermits()
    return { row: { ...row, inUse: Math.max(0, rate - available) } }
  }

  async semaphoreRow(name: string, withHolders: boolean): Promise<ReadRow> {
    const root = this.#root('semaphore', name)
    try {
      const semaphore = this.semaphore(name)
      const [permits, available, line] = await Promise.all([
        semaphore.permits(),
        semaphore.availablePermits(),
        this.#line(root),
      ])
      const row = { kind: 'semaphore' as const, name, inUse: permits - available, of: permits, ...line }
      if (!withHolders) return { row }
      const holders = await semaphore.holders()
      const shown = holders.slice(0, MOST_HOLDERS)
      return { row, leases: { shown, more: holders.length - shown.length } }
    } catch (error) {
      if (error instanceof NotInitializedError) return { row: { kind: 'semaphore', name, waiting: 0 } }
      throw error
    }
  }

  async #line(root: string): Promise<{ waiting: number; firstMs?: number }> {
    const keys = ['line', 'asks', 'meta'].map(part => `${root}:${part}`)
    const [waiting, firstMs] = (await runScript(this.#port, dashboardLine, keys, [])) as [number, number]
    return waiting > 0 ? { waiting, firstMs } : { waiting }
  }

  #root(kind: string, name: string): string {
    return keyRoot('dashboard', kind, name, this.prefix)
  }

  #object<T extends { close(): Promise<void> }>(kind: string, name: string, make: () => T): T {
    const id = `${kind} ${name}`
    const known = this.#open.get(id)
    if (known !== undefined) return known as T
    const [oldest] = this.#open
    if (this.#open.size >= MOST_OBJECTS && oldest !== undefined) {
      this.#open.delete(oldest[0])
      oldest[1].close().catch(() => {})
    }
    const object = make()
    withdrawNote(this.client, kind, name, this.prefix, object)
    this.#open.set(id, object)
    return object
  }
}

export type DeadView = ReturnType<typeof letterView>

function letterView({ id, reason, attempts, diedAt, payload }: DeadLetter<string>, withPayload: boolean) {
  return {
    id,
    reason,
    attempts,
    diedAt,
    /** Of the payload, in characters. */
    length: payload.length,
    /** Its beginning; only where keys are shown in full. */
    payload: withPayload ? payload.slice(0, MOST_PAYLOAD) : undefined,
  }
}

/** What a process tells of one of its holds, and which process it is. */
interface ReportedHold {
  readonly process: Process
  readonly hold: HoldRow
}

/** What all processes tell of one object: its holds, and how many more there are. */
interface Holds {
  readonly told: readonly ReportedHold[]
  readonly more: number
}

const USUAL_EVERY_MS = 2000
const LONGEST_EVERY_MS = 10_000
/** Details of many processes are read only every ten seconds. */
const SLACK_MS = 2000
const SLACK_OF_MANY_MS = 12_000
const MANY = 20
const NO_HOLDS: Holds = { told: [], more: 0 }

/** Says which process holds a lease: each process reports those that it holds, see `RecentActivity`. */
export class HolderNames {
  /** By object, of one reading. */
  #holds: { readonly number: number; readonly all: ReadonlyMap<string, Holds> } | undefined

  constructor(readonly reports: Reports) {}

  /** The leases of a semaphore as Redis lists them, with their holders. */
  leases(name: string, leases: readonly LeaseInfo[]): HolderView[] {
    const { told, more } = this.#told('semaphore', name)
    const byLease = new Map(told.map(one => [one.hold[0], one.process]))
    const { now } = this.reports
    return leases.map(({ id, permits, expiresAt, since }) => {
      const process = byLease.get(leaseReference(id))
      const isNew = now - since < this.#lateMs
      const by = process !== undefined ? this.#name(process) : isNew ? 'new' : more > 0 ? 'untold' : 'unknown'
      return { id, permits, expiresAt, by, since }
    })
  }

  /** The holds of which only the processes tell: of places, and of permits that each process counts for itself. */
  places(object: string, name: string): { holders: HolderView[]; moreHolders: number } {
    const { told, more } = this.#told(object, name)
    const oldest = [...told].sort((a, b) => a.hold[2] - b.hold[2])
    const holders = oldest.slice(0, MOST_HOLDERS).map(({ process, hold: [, permits, since] }) => {
      return { permits, since, by: this.#name(process) }
    })
    return { holders, moreHolders: told.length - holders.length + more }
  }

  #told(object: string, name: string): Holds {
    const { number } = this.reports
    if (this.#holds?.number !== number) this.#holds = { number, all: holdsOf(this.reports) }
    return this.#holds.all.get(`${object} ${name}`) ?? NO_HOLDS
  }

  #name(process: Process): HolderName {
    const { service, host, pid } = process.record
    return { service, host, pid, ...(this.reports.isSilent(process) && { silent: true }) }
  }

  /** A process with a reporter tells of a lease after this time at the latest, and it is read. */
  get #lateMs(): number {
    const { alive } = this.reports
    const all = alive.map(({ record }) => Math.min(LONGEST_EVERY_MS, record.everyMs))
    const everyMs = all.length > 0 ? Math.max(...all) : USUAL_EVERY_MS
    return everyMs + (this.reports.processes.length > MANY ? SLACK_OF_MANY_MS : SLACK_MS)
  }
}

function holdsOf(reports: Reports): ReadonlyMap<string, Holds> {
  const all = new Map<string, { told: ReportedHold[]; more: number }>()
  for (const [process, levels] of reports.levels) {
    for (const { object, name, holds = [], moreHolds = 0 } of levels) {
      const known = getOrMake(all, `${object} ${name}`, () => ({ told: [], more: 0 }))
      for (const hold of holds) known.told.push({ process, hold })
      known.more += moreHolds
    }
  }
  return all
}
