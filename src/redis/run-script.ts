import type { ClientPort } from './client.js'
import type { Script } from './script.js'

/**
 * Runs a script by its hash; sends its text only when the server says that it does not know it (a restart, SCRIPT FLUSH, a new
 * node). A redirection that the client left to us (it was learning the cluster's new map) is followed by asking once more.
 * Neither was carried out; after any other error running again might charge twice, so it is passed on.
 */
export async function runScript(
  port: ClientPort,
  script: Script,
  keys: readonly string[],
  args: readonly string[],
): Promise<unknown> {
  try {
    return await port.evalsha(script.sha1, keys, args)
  } catch (error) {
    if (saysAny(error, ['MOVED ', 'ASK '])) return runOnce(port, script, keys, args)
    if (saysAny(error, ['NOSCRIPT'])) return port.eval(script.source, keys, args)
    throw error
  }
}

async function runOnce(port: ClientPort, script: Script, keys: readonly string[], args: readonly string[]) {
  try {
    return await port.evalsha(script.sha1, keys, args)
  } catch (error) {
    if (saysAny(error, ['NOSCRIPT'])) return port.eval(script.source, keys, args)
    throw error
  }
}

function saysAny(error: unknown, words: readonly string[]): boolean {
  return error instanceof Error && words.some(word => error.message.startsWith(word))
}
