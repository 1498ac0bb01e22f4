import {
  type Blocking,
  type ClientPort,
  hasMethods,
  type OpenBlocking,
  type OpenListening,
  type ScriptArgument,
} from './client.js'
import { slotOf } from './keys.js'

/** The target of a command without keys in a cluster. */
type Route =
  | 'allPrimaries'
  | { readonly type: 'routeByAddress'; readonly host: string; readonly port: number }
  | { readonly type: 'primarySlotKey'; readonly key: string }

/** The part of a `GlideClient` or `GlideClusterClient` (@valkey/valkey-glide 2) that is used here. */
interface GlideLike {
  customCommand(args: readonly ScriptArgument[], options?: { decoder: number; route?: Route }): Promise<unknown>
  /** Undefined on a wrapper. */
  readonly isClosed?: boolean
}

export function isGlide(client: object): client is GlideLike {
  return hasMethods(client, 'customCommand', 'invokeScript')
}

/** GLIDE's errors of commands that no server has answered. */
const UNANSWERED: readonly string[] = ['TimeoutError', 'ConnectionError', 'ClosingError']

/** GLIDE's `Decoder.String`. */
const TEXT = 1

/**
 * Errors have the server's wording, as with other clients. Replies are texts, even if the client's own decoder returns
 * bytes.
 */
export async function glideCommand(
  client: GlideLike,
  args: readonly ScriptArgument[],
  route?: Route,
): Promise<unknown> {
  try {
    return await client.customCommand(args, { decoder: TEXT, route })
  } catch (error) {
    if (error instanceof Error) error.message = serverWords(error.message)
    throw error
  }
}

export function glidePort(client: GlideLike): ClientPort {
  const cluster = isGlideCluster(client)
  const nodes = cluster ? new SlotNodes(client) : undefined
  const lost = new Set<() => void>()
  let isAnswered = false
  const script = async (command: string, text: string, keys: readonly string[], args: readonly ScriptArgument[]) => {
    try {
      const reply = await glideCommand(client, [command, text, String(keys.length), ...keys, ...args])
      isAnswered = true
      return reply
    } catch (error) {
      if (isAnswered && UNANSWERED.includes((error as Error).name)) {
        isAnswered = false
        for (const listener of lost) listener()
      }
      throw error
    }
  }
  return {
    cluster,
    // GLIDE fails commands in flight when a connection is lost, and drops those that wait longer than `requestTimeout`.
    sendsAgain: false,
    evalsha: (sha1, keys, args) => script('EVALSHA', sha1, keys, args),
    eval: (source, keys, args) => script('EVAL', source, keys, args),
    zrem: (key, member) => glideCommand(client, ['ZREM', key, member]),
    // GLIDE does not report whether it is connected: without a connection, commands fail after their timeout.
    state: () => (client.isClosed ? 'down' : 'ready'),
    // A lazy one connects with its first command.
    open() {},
    onReady: () => () => {},
    // It does not report one. A command without an answer stands for it: the next may go to another server.
    onLost: listener => lost.add(listener),
    slotOf: key => (cluster ? slotOf(key) : 0),
    serverOf: slot => nodes?.of(slot) ?? '',
  }
}

/** What the nodes of slots are is asked again after so long, while somebody uses the client. */
const KNOWN_FOR_MS = 10_000

/** Which node has a slot: GLIDE does not expose that, so a node of the cluster is asked. */
class SlotNodes {
  #nodes: readonly string[] = []
  #askedAt = Number.NEGATIVE_INFINITY

  constructor(readonly client: GlideLike) {}

  /** While that is not known, each slot counts as a server of its own. */
  of(slot: number): string {
    const now = performance.now()
    if (now - this.#askedAt > KNOWN_FOR_MS) {
      this.#askedAt = now
      // Without an answer, or the permission, what was known before holds.
      glideCommand(this.client, ['CLUSTER', 'SLOTS'])
        .then(ranges => this.#learn(ranges))
        .catch(() => {})
    }
    return this.#nodes[slot] ?? String(slot)
  }

  #learn(ranges: unknown): void {
    const nodes: string[] = []
    for (const [first, last, [host, port]] of ranges as [number, number, [host: string, port: number]][]) {
      const name = `${host}:${port}`
      for (let slot = Number(first); slot <= Number(last); slot++) nodes[slot] = name
    }
    this.#nodes = nodes
  }
}

function isGlideCluster(client: GlideLike): boolean {
  return hasMethods(client, 'fcallWithRoute')
}

/** A route to each primary; undefined if there is one server. */
export async function glideNodes(client: GlideLike): Promise<readonly (Route | undefined)[]> {
  if (!isGlideCluster(client)) return [undefined]
  // Any command whose answers GLIDE does not merge shows their addresses.
  const answers = (await glideCommand(client, ['CLIENT', 'ID'], 'allPrimaries')) as ReadonlyArray<{ key: string }>
  return answers.map(({ key: address }) => {
    const colon = address.lastIndexOf(':')
    return { type: 'routeByAddress', host: address.slice(0, colon), port: Number(address.slice(colon + 1)) }
  })
}

/** GLIDE's names of some server errors. Other names are the server's own, though not always in capitals. */
const WORDS: Readonly<Record<string, string>> = {
  ResponseError: 'ERR',
  NoScriptError: 'NOSCRIPT',
  PermissionDenied: 'NOPERM',
  BusyLoadingError: 'LOADING',
}

function serverWords(message: string): string {
  return message.replace(
    /^(?:An error was signalled by the server:? - )?(\w+): /,
    (_, name: string) => `${WORDS[name] ?? name.toUpperCase()} `,
  )
}

interface Message {
  readonly channel: unknown
  readonly message: unknown
}

/** A GLIDE client that exposes its settings, so that another like it can be opened. */
interface GlideOpener extends GlideLike {
  readonly config: object
  readonly constructor: { createClient(config: object): Promise<GlideConnection> }
}

interface GlideConnection extends GlideLike {
  readonly socket?: { unref?(): unknown }
  subscribe(channels: readonly string[], timeoutMs: number): Promise<unknown>
  unsubscribeLazy(channels: readonly string[]): Promise<unknown>
  close(): void
}

/** GLIDE tries to subscribe for this long, also to a channel that the server refuses. */
const SUBSCRIBE_MS = 1000

export function isGlideBlocker(client: object): client is GlideOpener {
  const { config, constructor: maker } = client as GlideOpener
  return typeof config === 'object' && hasMethods(maker ?? {}, 'createClient')
}

export function isGlideListener(client: object): client is GlideOpener {
  // Available since 2.3.
  return isGlideBlocker(client) && hasMethods(client, 'subscribe')
}

export function glideBlocking(client: GlideOpener): OpenBlocking {
  return key => blocking(client, key)
}

export function glideListening(client: GlideOpener): OpenListening {
  return ({ onMessage }) => {
    let over = false
    const callback = ({ channel, message }: Message) => over || onMessage(String(channel), String(message))
    // Channels need RESP3, GLIDE's default, even if the user's client speaks RESP2.
    const more = { protocol: undefined, pubsubSubscriptions: { channelsAndPatterns: {}, callback } }
    return open(client, more).then(async connection => {
      // GLIDE reconnects without an event, but then the server gives it another connection number, and messages were
      // lost.
      const numbers = await numbersOf(connection)
      const ping = async () => {
        if ((await numbersOf(connection)) !== numbers) throw new Error('the connection was replaced')
      }
      const subscribe = async (channels: readonly string[]) => {
        try {
          await connection.subscribe(channels, SUBSCRIBE_MS)
        } catch {
          // Otherwise GLIDE would try for ever.
          await connection.unsubscribeLazy(channels)
          await ping()
          throw new Error(`NOPERM: the server did not let GLIDE subscribe to ${channels} within ${SUBSCRIBE_MS} ms`)
        }
      }
      // One after another: GLIDE subscribes to all channels together, so that a refused one would delay the others.
      let last: Promise<void> = Promise.resolve()
      return {
        subscribe(channels) {
          const subscribed = last.then(() => subscribe(channels))
          last = subscribed.catch(() => {})
          return subscribed
        },
        unsubscribe: channels => connection.unsubscribeLazy(channels),
        ping,
        close() {
          over = true
          connection.close()
        },
      }
    })
  }
}

function blocking(client: GlideOpener, key: string): Blocking {
  const route = { type: 'primarySlotKey', key } as const
  let over = false
  let blocks = false
  let number: unknown
  let connection: GlideConnection | undefined
  return {
    async connect() {
      connection = await open(client, {})
      number = await glideCommand(connection, ['CLIENT', 'ID'], route)
      if (!over) return
      connection.close()
      throw new Error('closed while it was connecting')
    },
    async pop(_, seconds) {
      if (connection === undefined) return undefined
      blocks = true
      try {
        const reply = await glideCommand(connection, ['BZPOPMIN', key, String(seconds)])
        return (reply as [key: string, member: string, score: number] | null)?.[1]
      } finally {
        blocks = false
      }
    },
    close() {
      over = true
      // A closed connection would continue to block, and take a wake-up from others.
      if (blocks) glideCommand(client, ['CLIENT', 'UNBLOCK', String(number)], route).catch(() => {})
      connection?.close()
    },
  }
}

/** Opens another client with the same settings. It does not keep the process alive: the caller's timer does. */
async function open(client: GlideOpener, more: object): Promise<GlideConnection> {
  // GLIDE does not tell whether it is connected. A new client would try several times to reach a server that does not
  // answer.
  await glideCommand(client, ['PING'])
  const config = { ...client.config, lazyConnect: false, defaultDecoder: TEXT, pubsubSubscriptions: undefined, ...more }
  const connection = await client.constructor.createClient(config)
  connection.socket?.unref?.()
  return connection
}

/** The server's numbers of this connection; in a cluster those of the connections to all primaries. */
async function numbersOf(connection: GlideConnection): Promise<string> {
  const all = await glideCommand(connection, ['CLIENT', 'ID'], 'allPrimaries')
  return JSON.stringify(Array.isArray(all) ? all.map(entry => JSON.stringify(entry)).sort() : all)
}
