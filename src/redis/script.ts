import type { ClientPort, ScriptArgument, SendTerms } from './client.js'

/** A script as sent to Redis, with its hash. */
export interface Script {
  readonly name: string
  readonly sha1: string
  readonly source: string
}

/**
 * A script of lua/. Its text is needed only where a server does not know its hash: until then the texts stay packed.
 */
export class LuaScript implements Script {
  readonly name: string
  readonly sha1: string
  readonly #texts: Readonly<Record<string, string>> | (() => Readonly<Record<string, string>>)

  constructor(
    name: string,
    sha1: string,
    texts: Readonly<Record<string, string>> | (() => Readonly<Record<string, string>>),
  ) {
    this.name = name
    this.sha1 = sha1
    this.#texts = texts
  }

  get source(): string {
    const texts = typeof this.#texts === 'function' ? this.#texts() : this.#texts
    return texts[this.name]
  }
}

/** Receives the outcome of a script, once; before that, `onSent` each time the script was passed to the client. */
interface ScriptReplyHandler {
  onReply(reply: unknown): void
  onError(error: unknown): void
  onSent?(): void
  readonly terms?: SendTerms
}

/**
 * Runs a script by its hash; sends its text only if the server does not know it (a restart, SCRIPT FLUSH, a new
 * node). If the client returns a redirection instead of following it (while it reloads the cluster's map), the script
 * is sent once more. In these cases the script did not run; after any other error repeating it might charge twice, so
 * the error is passed on.
 */
export function runScript(
  port: ClientPort,
  script: Script,
  keys: readonly string[],
  args: readonly ScriptArgument[],
  terms?: SendTerms,
): Promise<unknown> {
  return new Promise((onReply, onError) => sendScript(port, script, keys, args, { onReply, onError, terms }))
}

/**
 * As `runScript`, without a promise: in a decision, each promise costs more than the work it waits for. `repeat`: why
 * it is sent once more.
 */
export function sendScript(
  port: ClientPort,
  script: Script,
  keys: readonly string[],
  args: readonly ScriptArgument[],
  handler: ScriptReplyHandler,
  repeat?: 'unknown' | 'redirected',
): void {
  let reply: Promise<unknown>
  try {
    reply =
      repeat === 'unknown'
        ? port.eval(script.source, keys, args, handler.terms)
        : port.evalsha(script.sha1, keys, args, handler.terms)
  } catch (error) {
    // A user's wrapper around the client may throw.
    handler.onError(error)
    return
  }
  handler.onSent?.()
  reply.then(handler.onReply, error => {
    if (repeat !== 'unknown' && says(error, 'NOSCRIPT')) sendScript(port, script, keys, args, handler, 'unknown')
    else if (repeat === undefined && (says(error, 'MOVED ') || says(error, 'ASK '))) {
      sendScript(port, script, keys, args, handler, 'redirected')
    } else handler.onError(error)
  })
}

function says(error: unknown, word: string): boolean {
  return error instanceof Error && error.message.startsWith(word)
}
