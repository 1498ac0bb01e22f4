import type { ClientPort, ScriptArgument } from './client.js'
import type { Script } from './script.js'

/** Who asks for a script: told its answer or its error, once, and before that of each time that it was handed to the client. */
export interface ScriptAsker {
  given(reply: unknown): void
  failed(error: unknown): void
  sent?(): void
}

/**
 * Runs a script by its hash; sends its text only when the server says that it does not know it (a restart, SCRIPT FLUSH, a new
 * node). A redirection that the client left to us (it was learning the cluster's new map) is followed by asking once more.
 * Neither was carried out; after any other error running again might charge twice, so it is passed on.
 */
export function runScript(
  port: ClientPort,
  script: Script,
  keys: readonly string[],
  args: readonly ScriptArgument[],
): Promise<unknown> {
  return new Promise((given, failed) => askScript(port, script, keys, args, { given, failed }))
}

/** As `runScript`, without a promise: on the way of a decision each one costs more than what it waits for. */
export function askScript(
  port: ClientPort,
  script: Script,
  keys: readonly string[],
  args: readonly ScriptArgument[],
  asker: ScriptAsker,
  redirected = false,
): void {
  const refused = (error: unknown) => {
    if (says(error, 'NOSCRIPT')) {
      ask(asker, () => port.eval(script.source, keys, args), asker.failed)
    } else if (redirected || !(says(error, 'MOVED ') || says(error, 'ASK '))) asker.failed(error)
    else askScript(port, script, keys, args, asker, true)
  }
  ask(asker, () => port.evalsha(script.sha1, keys, args), refused)
}

function ask(asker: ScriptAsker, send: () => Promise<unknown>, refused: (error: unknown) => void): void {
  let reply: Promise<unknown>
  try {
    reply = send()
  } catch (error) {
    // A client that is wrapped, to watch it, may throw.
    asker.failed(error)
    return
  }
  asker.sent?.()
  reply.then(asker.given, refused)
}

function says(error: unknown, word: string): boolean {
  return error instanceof Error && error.message.startsWith(word)
}
