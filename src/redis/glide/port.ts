import type { ClientPort, ScriptArgument } from '../client.js'
import { hasMethods } from '../has-methods.js'

/** Where a command goes that a cluster could not tell by its keys. */
type Route =
  | 'allPrimaries'
  | { readonly type: 'routeByAddress'; readonly host: string; readonly port: number }
  | { readonly type: 'primarySlotKey'; readonly key: string }

/** The part of a `GlideClient` or `GlideClusterClient` (@valkey/valkey-glide 2) that is used here. */
export interface GlideLike {
  customCommand(args: readonly ScriptArgument[], options?: { decoder: number; route?: Route }): Promise<unknown>
  /** Absent on a wrapper. */
  readonly isClosed?: boolean
}

export function isGlide(client: object): client is GlideLike {
  return hasMethods(client, 'customCommand', 'invokeScript')
}

/** GLIDE's `Decoder.String`. */
export const TEXT = 1

/** Errors have the words of the server, as those of other clients. Texts are never bytes, whatever the client's own decoder is. */
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
    // What was on its way when the connection was lost fails, and what waits longer than `requestTimeout` is dropped.
    sendsAgain: false,
    evalsha: (sha1, keys, args) => script('EVALSHA', sha1, keys, args),
    eval: (source, keys, args) => script('EVAL', source, keys, args),
    zrem: (key, member) => glideCommand(client, ['ZREM', key, member]),
    // It tells nobody whether it is connected: without a connection, commands fail when their time is over.
    state: () => (client.isClosed ? 'down' : 'ready'),
    wake() {},
    onReady: () => () => {},
    onLost() {},
    // It does not tell which node has a slot, so each slot counts as a server of its own.
    serverOf: slot => (cluster ? String(slot) : ''),
  }
}

function isGlideCluster(client: GlideLike): boolean {
  return hasMethods(client, 'fcallWithRoute')
}

/** A route to each primary; undefined where there is one server. */
export async function glideNodes(client: GlideLike): Promise<readonly (Route | undefined)[]> {
  if (!isGlideCluster(client)) return [undefined]
  // Any command whose answers GLIDE does not combine tells their addresses.
  const answers = (await glideCommand(client, ['CLIENT', 'ID'], 'allPrimaries')) as ReadonlyArray<{ key: string }>
  return answers.map(({ key: address }) => {
    const colon = address.lastIndexOf(':')
    return { type: 'routeByAddress', host: address.slice(0, colon), port: Number(address.slice(colon + 1)) }
  })
}

/** What GLIDE calls some errors of the server. Other names are the server's own, though not always in capitals. */
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
