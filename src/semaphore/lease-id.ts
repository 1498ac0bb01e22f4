import { randomFillSync } from 'node:crypto'

const ID_BYTES = 16
const POOL_BYTES = 256 * ID_BYTES
let pool: Buffer | undefined
let used = POOL_BYTES

/** 128 random bits. They are generated for many leases at a time: calling the system's generator costs more than all other work for a lease. */
export function newLeaseId(): string {
  if (pool === undefined || used === POOL_BYTES) {
    pool ??= Buffer.alloc(POOL_BYTES)
    randomFillSync(pool)
    used = 0
  }
  used += ID_BYTES
  return pool.toString('base64url', used - ID_BYTES, used)
}
