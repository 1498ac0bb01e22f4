import type { ClientPort } from './client.js'
import type { Script } from './script.js'

/**
 * Runs a script by its hash; sends its text only when the server says that it does not know it (a restart, SCRIPT FLUSH, a new
 * node). Any other error is passed on: running again might charge twice.
 */
export function runScript(
  port: ClientPort,
  script: Script,
  keys: readonly string[],
  args: readonly string[],
): Promise<unknown> {
  return port.evalsha(script.sha1, keys, args).catch(error => {
    if (!isNoScript(error)) throw error
    return port.eval(script.source, keys, args)
  })
}

function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT')
}
