/** One connection that only blocks on a sorted set. It does not reconnect: create another after a loss. */
export interface Blocking {
  /** Connects. Rejects when that fails, or when `close` is called first. */
  connect(): Promise<void>
  /**
   * Removes the member with the lowest score, waiting for one if necessary. Resolves to its name, or to undefined after `seconds` without one.
   * Rejects when the connection is lost.
   */
  pop(key: string, seconds: number): Promise<string | undefined>
  /** Closes it at once, also while it connects. */
  close(): void
}

/** Makes a connection that blocks on `key`, beside a client that is connected; undefined while the key's node is not. It does not keep the process alive. */
export type OpenBlocking = (key: string) => Blocking | undefined
