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
export function restored(
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
