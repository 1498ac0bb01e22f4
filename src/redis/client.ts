/** A user's Redis client. Typed structurally: the package never imports a client at run time. */
export type RedisClient = object

/**
 * - `ready`: can be asked.
 * - `unopened`: its owner has never told it to connect. It is not asked, and the error says the remedy.
 * - `starting`: its first connection is under way, or begins when it is asked (`wake`).
 * - `down`: has lost its connection, or was closed. What it is asked now would wait in its queue, and be sent long after.
 */
export type ClientState = 'ready' | 'unopened' | 'starting' | 'down'

/** An argument of a script. A client that sends a command again reads a buffer again. */
export type ScriptArgument = string | Buffer

/** The port to a Redis client: runs scripts, says whether the client is connected, and has one plain command, since a script would cost twice as much. */
export interface ClientPort {
  /** True where a script's keys must all lie in one slot. */
  readonly cluster: boolean
  /** True if the client may send a command again whose connection was lost before the answer. */
  readonly sendsAgain: boolean
  evalsha(sha1: string, keys: readonly string[], args: readonly ScriptArgument[]): Promise<unknown>
  eval(source: string, keys: readonly string[], args: readonly ScriptArgument[]): Promise<unknown>
  /** The arguments of the command that it was handed last, as it would send them again. Absent where the client does not show them. */
  lastSent?(): unknown[] | undefined
  /** Takes a member out of a sorted set: 1, or 0 if it is not there. Absent where the client has no such command. */
  zrem?(key: string, member: string): Promise<unknown>
  state(): ClientState
  /** Connects a client that is lazy, or that waits long before it tries again. */
  wake(): void
  /** Calls back whenever the client becomes ready; the returned function takes that back. */
  onReady(listener: () => void): () => void
  /** Calls back whenever a connection was lost, before anything is sent again. */
  onLost(listener: () => void): void
  /** Names the server that has a slot of a cluster, as far as the client knows; '' where there is one server, or none is known. */
  serverOf(slot: number): string
}
