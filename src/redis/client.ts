/** One connection that only blocks on a sorted set. It does not reconnect: create another after a loss. */
export interface Blocking {
  /** Connects. Rejects when that fails, or when `close` is called first. */
  connect(): Promise<void>
  /**
   * Removes the member with the lowest score, waiting for one if necessary. Resolves to its name, or to undefined after
   * `seconds` without one. Rejects when the connection is lost.
   */
  pop(key: string, seconds: number): Promise<string | undefined>
  /** Closes it at once, also while it connects. */
  close(): void
}

/**
 * Makes a connection that blocks on `key`, beside a client that is connected; undefined while the key's node is not. It
 * does not keep the process alive.
 */
export type OpenBlocking = (key: string) => Blocking | undefined

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

/**
 * A user's Redis client: of ioredis, iovalkey, node-redis, GLIDE, Bun or @upstash/redis. Typed structurally, as the package
 * imports none, and so loosely that a variable of type `object` is one too: only what is often passed by mistake does
 * not compile, a promise of a client and `{ client }`.
 */
export type RedisClient = object & {
  /** No promise: await it first. */
  readonly then?: never
} & (
    | {
        /** No object that has the client: pass the client itself. */
        readonly client?: never
      }
    | {
        /** A client whose commands are methods, of which `client` is one. */
        evalsha(...args: never[]): unknown
      }
  )

/**
 * - `ready`: commands can be sent.
 * - `unopened`: its owner has never called connect. No command is sent, and the error names the remedy.
 * - `starting`: its first attempt to connect is in progress, or begins with the first use (`open`).
 * - `down`: its first attempt failed, it has lost its connection, or it was closed. A command would wait in its queue,
 *   and be sent long after.
 */
export type ClientState = 'ready' | 'unopened' | 'starting' | 'down'

/** An argument of a script. A client that repeats a command reads a buffer again. */
export type ScriptArgument = string | Uint8Array

/** Called when a client has stopped trying to connect although its owner did not close it. */
export type GaveUp = (strategy: { readonly option: string; readonly example: string }) => void

/** What a client that sends each request on its own needs to know of a script; others ignore it. */
export interface SendTerms {
  /** By `performance.now()`: nobody waits for the answer after that. Default: 5 s from now. */
  readonly endsAt?: number
  /** True if it does no harm that the script runs twice, because the client repeats a request whose answer was lost. */
  readonly mayRepeat?: boolean
}

/**
 * The port to a Redis client: runs scripts, says whether the client is connected, and has one plain command, since a
 * script would cost twice as much.
 */
export interface ClientPort {
  /** True if all keys of a script must be in one slot. */
  readonly cluster: boolean
  /** True if the client may repeat a command whose connection was lost before the answer. */
  readonly sendsAgain: boolean
  evalsha(sha1: string, keys: readonly string[], args: readonly ScriptArgument[], terms?: SendTerms): Promise<unknown>
  eval(source: string, keys: readonly string[], args: readonly ScriptArgument[], terms?: SendTerms): Promise<unknown>
  /**
   * Present if all that is sent in one turn of the event loop travels together: calls `act` at the end of the turn,
   * before that is sent.
   */
  beforeSending?(act: () => void): void
  /**
   * The arguments of the command that was passed to it last, as it would repeat them. Undefined if the client does not
   * expose them.
   */
  lastSent?(): unknown[] | undefined
  /** Removes a member from a sorted set: 1, or 0 if it is not there. Undefined if the client has no such command. */
  zrem?(key: string, member: string): Promise<unknown>
  state(): ClientState
  /**
   * Connects a client that its owner left to connect with its first use. Does nothing in any other state: when to try
   * again is the client's decision.
   */
  open(): void
  /** Calls back whenever the client becomes ready; the returned function unsubscribes. */
  onReady(listener: () => void): () => void
  /**
   * Calls back whenever a connection is lost, before anything is sent again, and when the first attempt to connect has
   * failed.
   */
  onLost(listener: () => void): void
  /**
   * The cluster slot of a key as the client sends it, which may be with a prefix of its own; 0 if there is one server.
   */
  slotOf(key: string): number
  /** Names the server of a cluster's slot, as far as the client knows; '' if there is one server, or none is known. */
  serverOf(slot: number): string
}

/** A client, and what is known of it. */
export interface RedisConnection {
  readonly client: RedisClient
  readonly port: ClientPort
  /** The address of its server, for messages, without user name or password. */
  readonly address: string
}

/** True if the client has all of these methods. Tells the kinds of clients apart. */
export function hasMethods(client: object, ...names: readonly string[]): boolean {
  return names.every(name => typeof (client as Record<string, unknown>)[name] === 'function')
}
