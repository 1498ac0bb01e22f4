import type { ClientPort, ScriptArgument } from './client.js'

/** A script as sent to Redis, with its hash. */
export interface Script {
  readonly name: string
  readonly sha1: string
  readonly source: string
}

/** A script of lua/. Its text is needed only where a server does not know its hash: until then the texts stay packed. */
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

/** Receives the outcome of a script, once; before that, `sent` each time the script was passed to the client. */
interface ScriptAsker {
  given(reply: unknown): void
  failed(error: unknown): void
  sent?(): void
}

/**
 * Runs a script by its hash; sends its text only if the server does not know it (a restart, SCRIPT FLUSH, a new
 * node). If the client returns a redirection instead of following it (while it reloads the cluster's map), the script is sent once more.
 * In these cases the script did not run; after any other error repeating it might charge twice, so the error is passed on.
 */
export function runScript(
  port: ClientPort,
  script: Script,
  keys: readonly string[],
  args: readonly ScriptArgument[],
): Promise<unknown> {
  return new Promise((given, failed) => askScript(port, script, keys, args, { given, failed }))
}

/** As `runScript`, without a promise: in a decision, each promise costs more than the work it waits for. */
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
    // A user's wrapper around the client may throw.
    asker.failed(error)
    return
  }
  asker.sent?.()
  reply.then(asker.given, refused)
}

function says(error: unknown, word: string): boolean {
  return error instanceof Error && error.message.startsWith(word)
}
