/** What the server calls an error of the request itself. Everything else may pass: a lost connection, a failover, a full memory. */
const FAULTS = ['WRONGTYPE', 'ERR ', 'NOPERM', 'CROSSSLOT']

/** True for an error of the server that would come again, whoever asks and whenever: a key of another type, a bug of a script. */
export function isFault(error: unknown): boolean {
  const message = (error as Error | undefined)?.message
  return typeof message === 'string' && FAULTS.some(fault => message.startsWith(fault))
}
