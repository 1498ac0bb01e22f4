/** One connection that only listens. When it is lost, another replaces it. */
export interface Listening {
  subscribe(channels: readonly string[]): Promise<unknown>
  unsubscribe(channels: readonly string[]): Promise<unknown>
  /** Resolves when the server answers. */
  ping(): Promise<unknown>
  close(): void
}

export interface ListeningEvents {
  onMessage(channel: string, text: string): void
  /** The connection is lost, or could not be made. Called once; not after `close`. */
  onLost(): void
}

/** Opens such a connection beside a client that is connected; undefined while no node of its cluster is. */
export type OpenListening = (events: ListeningEvents) => Promise<Listening> | undefined
