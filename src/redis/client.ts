/** A user's Redis client. Typed structurally: the package never imports a client at run time. */
export type RedisClient = object

/**
 * - `ready`: commands can be sent.
 * - `unopened`: its owner has never called connect. No command is sent, and the error names the remedy.
 * - `starting`: its first attempt to connect is in progress, or begins with the first use (`open`).
 * - `down`: its first attempt failed, it has lost its connection, or it was closed. A command would wait in its queue, and be sent long after.
 */
export type ClientState = 'ready' | 'unopened' | 'starting' | 'down'

/** An argument of a script. A client that repeats a command reads a buffer again. */
export type ScriptArgument = string | Buffer

/** Called when a client has stopped trying to connect although its owner did not close it. */
export type GaveUp = (strategy: { readonly option: string; readonly example: string }) => void

/** The port to a Redis client: runs scripts, says whether the client is connected, and has one plain command, since a script would cost twice as much. */
export interface ClientPort {
  /** True if all keys of a script must be in one slot. */
  readonly cluster: boolean
  /** True if the client may repeat a command whose connection was lost before the answer. */
  readonly sendsAgain: boolean
  evalsha(sha1: string, keys: readonly string[], args: readonly ScriptArgument[]): Promise<unknown>
  eval(source: string, keys: readonly string[], args: readonly ScriptArgument[]): Promise<unknown>
  /** The arguments of the command that was passed to it last, as it would repeat them. Undefined if the client does not expose them. */
  lastSent?(): unknown[] | undefined
  /** Removes a member from a sorted set: 1, or 0 if it is not there. Undefined if the client has no such command. */
  zrem?(key: string, member: string): Promise<unknown>
  state(): ClientState
  /** Connects a client that its owner left to connect with its first use. Does nothing in any other state: when to try again is the client's decision. */
  open(): void
  /** Calls back whenever the client becomes ready; the returned function unsubscribes. */
  onReady(listener: () => void): () => void
  /** Calls back whenever a connection is lost, before anything is sent again, and when the first attempt to connect has failed. */
  onLost(listener: () => void): void
  /** The cluster slot of a key as the client sends it, which may be with a prefix of its own; 0 if there is one server. */
  slotOf(key: string): number
  /** Names the server of a cluster's slot, as far as the client knows; '' if there is one server, or none is known. */
  serverOf(slot: number): string
}
