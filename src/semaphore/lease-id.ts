import { randomFillSync } from 'node:crypto'

const ID_BYTES = 16
const pool = Buffer.alloc(256 * ID_BYTES)
let used = pool.length

/** 128 random bits of its own. They are drawn for many leases at a time: to ask the system costs more than all else that is done for one. */
export function newLeaseId(): string {
  if (used === pool.length) {
    randomFillSync(pool)
    used = 0
  }
  used += ID_BYTES
  return pool.toString('base64url', used - ID_BYTES, used)
}
