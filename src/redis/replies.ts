import { StoreError } from '../limiter/core/errors.js'
import type { ClientState } from './client.js'

/**
 * True for an error in the request itself. All other errors may be temporary: a lost connection, a failover, full
 * memory.
 */
const FAULTS = ['WRONGTYPE', 'ERR ', 'NOPERM', 'CROSSSLOT']

/** "ERR max number of clients reached", "ERR max requests limit exceeded": more than the server takes now. */
const TOO_MUCH = 'ERR max '

/**
 * True for an error of the server that would repeat for any caller at any time: a key of another type, a bug in a
 * script.
 */
export function isFault(error: unknown): boolean {
  const message = (error as Error | undefined)?.message
  if (typeof message !== 'string' || message.startsWith(TOO_MUCH)) return false
  return FAULTS.some(fault => message.startsWith(fault))
}

/** Why no command may be sent to a client in this state; undefined if one may. */
export function notConnected(state: ClientState): StoreError | undefined {
  if (state === 'down') return new StoreError('the Redis client is not connected', { settled: false })
  if (state === 'unopened') return new StoreError(NEVER_CONNECTED, { settled: false })
  return undefined
}

export const NEVER_CONNECTED = 'the node-redis client was never connected: call await client.connect()'

/** The message of an error, without the position in the script that Redis appends: callers do not know the script. */
export function replyWords(error: unknown): string {
  if (error === undefined) return 'it did not answer'
  return String((error as Error)?.message).replace(/ script: [0-9a-f]{40}, on @user_script:\d+\.?$/, '')
}

/** The error of the object `subject`, like `Semaphore "jobs"`, when Redis has failed, or did not answer. */
export function redisFailed(subject: string, cause: unknown): StoreError {
  return new StoreError(`${subject}: Redis failed: ${replyWords(cause)}`, { cause })
}
