/** True for an error in the request itself. All other errors may be temporary: a lost connection, a failover, full memory. */
const FAULTS = ['WRONGTYPE', 'ERR ', 'NOPERM', 'CROSSSLOT']

/** True for an error of the server that would repeat for any caller at any time: a key of another type, a bug in a script. */
export function isFault(error: unknown): boolean {
  const message = (error as Error | undefined)?.message
  return typeof message === 'string' && FAULTS.some(fault => message.startsWith(fault))
}
