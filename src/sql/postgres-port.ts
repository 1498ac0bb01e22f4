export type Row = Readonly<Record<string, unknown>>
export type SqlValue = string | null

/** A client as the store uses it. */
export interface PostgresPort {
  /** The server, for messages. */
  readonly server: string
  /** Sends one statement. One without a name is planned each time. */
  send(text: string, values: readonly SqlValue[], name: string | undefined): SentStatement
}

/** A statement on its way. */
export interface SentStatement {
  readonly rows: Promise<readonly Row[]>
  /** Asks the server to end it, as far as the client can. */
  cancel(): void
  /** Drops its connection, as far as the client can. Unless it has been answered, `rows` rejects with this error. */
  drop(error: Error): void
}
