import type { ClientPort, ScriptArgument } from '../client.js'
import { hasMethods } from '../has-methods.js'
import { slotOf } from '../slot.js'

/** The target of a command without keys in a cluster. */
type Route =
  | 'allPrimaries'
  | { readonly type: 'routeByAddress'; readonly host: string; readonly port: number }
  | { readonly type: 'primarySlotKey'; readonly key: string }

/** The part of a `GlideClient` or `GlideClusterClient` (@valkey/valkey-glide 2) that is used here. */
export interface GlideLike {
  customCommand(args: readonly ScriptArgument[], options?: { decoder: number; route?: Route }): Promise<unknown>
  /** Undefined on a wrapper. */
  readonly isClosed?: boolean
}

export function isGlide(client: object): client is GlideLike {
  return hasMethods(client, 'customCommand', 'invokeScript')
}

/** GLIDE's `Decoder.String`. */
export const TEXT = 1

/** Errors have the server's wording, as with other clients. Replies are texts, even if the client's own decoder returns bytes. */
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
  const script = (command: string, text: string, keys: readonly string[], args: readonly ScriptArgument[]) =>
    glideCommand(client, [command, text, String(keys.length), ...keys, ...args])
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
    onLost() {},
    slotOf: key => (cluster ? slotOf(key) : 0),
    // GLIDE does not expose which node has a slot, so each slot counts as a server of its own.
    serverOf: slot => (cluster ? String(slot) : ''),
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
    /^(?:An error was signalled by the server: - )?(\w+): /,
    (_, name: string) => `${WORDS[name] ?? name.toUpperCase()} `,
  )
}
