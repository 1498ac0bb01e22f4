import type { ClientPort, ScriptArgument } from './client.js'
import type { Script } from './script.js'

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
  redirected = false,
): Promise<unknown> {
  let reply: Promise<unknown>
  try {
    reply = port.evalsha(script.sha1, keys, args)
  } catch (error) {
    // A client that is wrapped, to watch it, may throw.
    return Promise.reject(error)
  }
  return reply.catch(error => {
    if (says(error, 'NOSCRIPT')) return port.eval(script.source, keys, args)
    if (redirected || !(says(error, 'MOVED ') || says(error, 'ASK '))) throw error
    return runScript(port, script, keys, args, true)
  })
}

function says(error: unknown, word: string): boolean {
  return error instanceof Error && error.message.startsWith(word)
}
