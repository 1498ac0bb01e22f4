import { type Duration, parseStoredOption } from '../core/duration.js'
import { PolicyError, shown } from '../core/errors.js'

const LEASE_MS = 30_000

/** The length of a lease, ms; at most ten years. Throws `PolicyError`, in which `what` names the option. */
export function leaseMsOf(lease: Duration | undefined, what: string): number {
  return lease === undefined ? LEASE_MS : parseStoredOption(lease, what, '30s')
}

/** The length of a lease, ms. Throws `PolicyError`, in which `method` names the called method. */
export function leaseOf({ lease, renew }: { lease?: Duration; renew?: boolean }, method: string): number {
  if (renew !== undefined && typeof renew !== 'boolean') {
    throw new PolicyError(`${method}: renew ${shown(renew)}: expected true or false`)
  }
  return leaseMsOf(lease, `${method}: lease`)
}

export function checkTotal(permits: unknown, what: string): void {
  if (Number.isSafeInteger(permits) && (permits as number) >= 0) return
  throw new PolicyError(`${what}: given ${shown(permits)}, expected an integer ≥ 0, like 5`)
}

export function checkId(id: unknown, method: string): string {
  if (typeof id === 'string' && id !== '') return id
  throw new PolicyError(`${method}: id ${shown(id)}: expected the id of a lease, like lease.id`)
}

export function checkWork(work: unknown, subject: string): void {
  if (typeof work === 'function') return
  throw new PolicyError(`${subject}: use: work ${shown(work)}: expected a function, like async lease => { … }`)
}
