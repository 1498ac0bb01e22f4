/** One connection that only waits for a member of a sorted set. It is lost once, and then replaced by another. */
export interface Blocking {
  /** Takes the first member as soon as there is one; false when there has been none for so long. Rejects when it is lost. */
  pop(key: string, seconds: number): Promise<boolean>
  close(): void
}

/** How to open such a connection beside a client; undefined while the client is closed. It does not keep the process alive. */
export type OpenBlocking = () => Promise<Blocking> | undefined
