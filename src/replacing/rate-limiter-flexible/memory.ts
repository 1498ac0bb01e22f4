import { BoundedMap, MapSweeper } from '../../limiter/core/maps.js'
import { MemoryStore } from '../../limiter/memory/memory-store.js'
import type { Count } from './points.js'
import type { CallOptions, IRateLimiterOptions } from './rate-limiter-abstract.js'
import type { RateLimiterRes } from './rate-limiter-res.js'
import { RateLimiterStoreAbstract } from './store-limiter.js'

/** A counter of a dump. */
export interface IRateLimiterMemoryRecord {
  /** The key with its prefix. */
  key: string | number
  /** Consumed points. */
  value: number
  /** ms since 1970; null: never. */
  expiresAt: number | null
}

/** The result of `RateLimiterMemory.dump`. */
export interface IRateLimiterMemoryExport {
  /** The version of the format. */
  version: number
  /** ms since 1970. */
  dumpedAt: number
  /** The records of all keys. */
  storage: IRateLimiterMemoryRecord[]
}

/** The outcome for the records of a dump. */
export interface IRateLimiterRestoreResult<T> {
  /** Invalid records. */
  invalid: T
  /** Records whose duration has ended. */
  expired: T
  /** How many records were restored. */
  restored: T
}

/** The number of records for each outcome. */
export type IRateLimiterRestoreResponse = IRateLimiterRestoreResult<number>

/** The number of records, and their keys; 'N/A' for an invalid record. */
export interface IRateLimiterRestoreBucketDetail {
  /** How many there are. */
  count: number
  /** Their keys. */
  keys: Array<string | number>
}

/** The records for each outcome. */
export type IRateLimiterRestoreDetailResponse = IRateLimiterRestoreResult<IRateLimiterRestoreBucketDetail>

/** Reads a dump from any source; undefined if it is not a dump. */
function restored(
  data: Omit<IRateLimiterMemoryExport, 'dumpedAt'>,
  detailed: boolean,
  now: number,
  take: (record: IRateLimiterMemoryRecord) => void,
): IRateLimiterRestoreResponse | IRateLimiterRestoreDetailResponse | undefined {
  if (!data || typeof data !== 'object' || data.version !== 1) return undefined
  const bucket = (): IRateLimiterRestoreBucketDetail => ({ count: 0, keys: [] })
  const detail: IRateLimiterRestoreDetailResponse = { invalid: bucket(), expired: bucket(), restored: bucket() }
  for (const record of Array.isArray(data.storage) ? data.storage : []) {
    const fate = fateOf(record, now)
    if (fate === 'restored') take(record)
    detail[fate].count++
    detail[fate].keys.push(record && typeof record === 'object' ? record.key : 'N/A')
  }
  const { invalid, expired, restored } = detail
  return detailed ? detail : { invalid: invalid.count, expired: expired.count, restored: restored.count }
}

function fateOf(record: IRateLimiterMemoryRecord, now: number): keyof IRateLimiterRestoreResponse {
  if (!record || typeof record !== 'object') return 'invalid'
  const { key, value, expiresAt } = record
  const hasKey = typeof key === 'string' || typeof key === 'number'
  if (!hasKey || !Number.isFinite(value) || !(expiresAt === null || Number.isFinite(expiresAt))) return 'invalid'
  return expiresAt !== null && expiresAt <= now ? 'expired' : 'restored'
}

/** A process banks points of so many keys. */
const MOST_BANKED = 100_000

/** Counts in this process, by spillway's own limiter. Refused calls count. */
export class RateLimiterMemory extends RateLimiterStoreAbstract {
  /** When what is known of a key ends, ms since 1970: for `dump`. */
  readonly #ends = new Map<string, number>()
  /** Points that were given to keys beyond what they had consumed, until the duration ends. */
  readonly #bank = new BoundedMap<string, { readonly points: number; readonly endsAt: number }>(MOST_BANKED)
  readonly #sweeper = new MapSweeper(this.#ends, end => (Number.isFinite(end) ? end : undefined))

  /** Throws `PolicyError` for invalid `points`, `duration` or `keyPrefix`. */
  constructor(opts: IRateLimiterOptions) {
    const { points, duration, blockDuration, execEvenly, execEvenlyMinDelayMs, keyPrefix } = opts ?? {}
    const own = { points, duration, blockDuration, execEvenly, execEvenlyMinDelayMs, keyPrefix }
    super(own, new MemoryStore())
  }

  /** Gives points back. Beyond what was consumed they are banked, for the duration that runs or begins. */
  override reward(key: string | number, points = 1, options: CallOptions = {}): Promise<RateLimiterRes> {
    const rlKey = this.getKey(key)
    const look = () => this.counts.look(rlKey) as Count
    const { consumed, msLeft, isBlocked } = look()
    if (isBlocked || points <= consumed) return super.reward(key, points, options)
    const begins = msLeft === 0
    if (begins) void this.counts.add(rlKey, 1, this.durationMs(options))
    const banked = this.banked(rlKey) + points - consumed
    this.#bank.set(rlKey, { points: banked, endsAt: Date.now() + look().msLeft })
    return super.reward(key, begins ? 1 : consumed, options)
  }

  /** All counters, to be restored in a later process. */
  dump(): IRateLimiterMemoryExport {
    const dumpedAt = Date.now()
    const storage: IRateLimiterMemoryRecord[] = []
    for (const rlKey of this.#ends.keys()) {
      const { consumed, msLeft, isBlocked } = this.counts.look(rlKey) as Count
      if (msLeft === 0) continue
      const value = isBlocked ? Math.max(consumed, this.points + 1) : consumed - this.banked(rlKey)
      storage.push({ key: this.parseKey(rlKey), value, expiresAt: Number.isFinite(msLeft) ? dumpedAt + msLeft : null })
    }
    return { version: 1, dumpedAt, storage }
  }

  /**
   * Restores the counters of a dump; undefined if it is not a dump. Returns how many records (with `detailResponse`:
   * which) were restored, had expired, or were invalid.
   */
  restore(
    data: Omit<IRateLimiterMemoryExport, 'dumpedAt'>,
    detailResponse: true,
  ): IRateLimiterRestoreDetailResponse | undefined
  restore(
    data: Omit<IRateLimiterMemoryExport, 'dumpedAt'>,
    detailResponse?: false,
  ): IRateLimiterRestoreResponse | undefined
  restore(
    data: Omit<IRateLimiterMemoryExport, 'dumpedAt'>,
    detailResponse?: boolean,
  ): IRateLimiterRestoreResponse | IRateLimiterRestoreDetailResponse | undefined
  restore(
    data: Omit<IRateLimiterMemoryExport, 'dumpedAt'>,
    detailResponse = false,
  ): IRateLimiterRestoreResponse | IRateLimiterRestoreDetailResponse | undefined {
    const now = Date.now()
    return restored(data, detailResponse, now, record => this.#restore(record, now))
  }

  protected override noted(rlKey: string, msLeft: number): void {
    const now = Date.now()
    if (!this.#ends.has(rlKey)) this.#sweeper.inserting(now)
    this.#ends.set(rlKey, now + msLeft)
    this.#sweeper.start()
  }

  protected override forgotten(rlKey: string): void {
    this.#bank.delete(rlKey)
  }

  protected override banked(rlKey: string): number {
    const banked = this.#bank.get(rlKey)
    return banked !== undefined && banked.endsAt > Date.now() ? banked.points : 0
  }

  #restore({ key, value, expiresAt }: IRateLimiterMemoryRecord, now: number): void {
    const rlKey = this.getKey(key)
    const points = Math.max(0, Math.trunc(value))
    const restMs = expiresAt === null ? Number.POSITIVE_INFINITY : expiresAt - now
    this.forgotten(rlKey)
    void this.counts.forget(rlKey)
    if (points > this.points && !(restMs <= this.msDuration)) void this.counts.block(rlKey, restMs, points)
    else void this.counts.begin(rlKey, points, restMs)
    this.noted(rlKey, restMs)
  }
}
