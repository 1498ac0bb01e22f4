import { randomText } from '../../limiter/core/short-key.js'

/**
 * The name of a lease, which is its id: "permits.since.process/number.random". Since when is written in ms since the
 * epoch to base 36, by the holder's clock; "process/number" is where the holder listens. 132 of its bits are random.
 */
export function newLeaseName(permits: number, address: string): string {
  return `${permits}${newLeaseNameEnd(address)}`
}

/** All but the permits, for a lease that takes them over from another. */
export function newLeaseNameEnd(address: string): string {
  return `.${Date.now().toString(36)}.${address}.${randomText(22)}`
}

/** What the name of a lease tells. */
export interface LeaseFacts {
  readonly permits: number
  /** ms since the epoch. */
  readonly since: number
  /** The process. */
  readonly heldBy: string
}

export function leaseFacts(name: string): LeaseFacts {
  const [permits, since, holder = ''] = name.split('.')
  return { permits: Number(permits), since: Number.parseInt(since, 36), heldBy: holder.split('/')[0] }
}
