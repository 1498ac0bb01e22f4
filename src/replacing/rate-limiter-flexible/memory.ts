import { type Counter, Counters } from './counters.js'
import { type CallOptions, RateLimiterAbstract } from './rate-limiter-abstract.js'
import { evenly, RateLimiterRes } from './rate-limiter-res.js'

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

/** Counts in this process. Refused calls count. */
export class RateLimiterMemory extends RateLimiterAbstract {
  readonly #counters = new Counters()

  override consume(key: string | number, pointsToConsume = 1, options?: CallOptions): Promise<RateLimiterRes> {
    const res = this.#add(key, pointsToConsume, options)
    const { consumedPoints } = res
    if (consumedPoints <= this.points) return this.execEvenly ? evenly(this, res) : Promise.resolve(res)
    // Only the call that exceeds the points first blocks the key.
    if (this.blockDuration > 0 && consumedPoints <= this.points + pointsToConsume) {
      const now = Date.now()
      this.#counters.set(this.getKey(key), consumedPoints, now + this.msBlockDuration, now)
      return Promise.reject(new RateLimiterRes(0, this.msBlockDuration, consumedPoints, true))
    }
    return Promise.reject(res)
  }

  override async penalty(key: string | number, points = 1, options?: CallOptions): Promise<RateLimiterRes> {
    return this.#add(key, points, options)
  }

  override async reward(key: string | number, points = 1, options?: CallOptions): Promise<RateLimiterRes> {
    return this.#add(key, -points, options)
  }

  override async get(key: string | number, _options?: CallOptions): Promise<RateLimiterRes | null> {
    const now = Date.now()
    const counter = this.#counters.get(this.getKey(key), now)
    return counter === undefined ? null : this.#res(counter, now)
  }

  override async set(key: string | number, points: number, secDuration: number): Promise<RateLimiterRes> {
    const durationMs = (secDuration >= 0 ? secDuration : this.duration) * 1000
    const now = Date.now()
    this.#counters.set(this.getKey(key), Math.trunc(points), durationMs > 0 ? now + durationMs : null, now)
    return new RateLimiterRes(0, durationMs === 0 ? -1 : durationMs, points)
  }

  override block(key: string | number, secDuration: number): Promise<RateLimiterRes> {
    return this.set(key, this.points + 1, secDuration)
  }

  override async delete(key: string | number, _options?: CallOptions): Promise<boolean> {
    return this.#counters.delete(this.getKey(key), Date.now())
  }

  /** All counters, to be restored in a later process. */
  dump(): IRateLimiterMemoryExport {
    const dumpedAt = Date.now()
    const storage = [...this.#counters.entries(dumpedAt)].map(([key, { value, expiresAt }]) => ({
      key: this.parseKey(key),
      value,
      expiresAt,
    }))
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
    return restored(data, detailResponse, now, ({ key, value, expiresAt }) =>
      this.#counters.set(this.getKey(key), Math.trunc(value), expiresAt, now),
    )
  }

  #add(key: string | number, points: number, options: CallOptions | undefined): RateLimiterRes {
    const rlKey = this.getKey(key)
    const now = Date.now()
    const counter = this.#counters.get(rlKey, now)
    if (counter !== undefined) {
      counter.value = Math.trunc(counter.value + points)
      return this.#res(counter, now)
    }
    const custom = options?.customDuration as number
    const durationMs = (custom >= 0 ? custom : this.duration) * 1000
    const value = Math.trunc(points)
    this.#counters.set(rlKey, value, durationMs > 0 ? now + durationMs : null, now)
    return new RateLimiterRes(Math.max(this.points - value, 0), durationMs > 0 ? durationMs : -1, value, true)
  }

  #res({ value, expiresAt }: Counter, now: number): RateLimiterRes {
    return new RateLimiterRes(Math.max(this.points - value, 0), expiresAt === null ? -1 : expiresAt - now, value, false)
  }
}
