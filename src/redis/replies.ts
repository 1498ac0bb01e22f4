import { PolicyError, StoreError, shown } from '../limiter/core/errors.js'
import type { ClientState, RedisClient } from './client.js'
import { glideCommand, isGlide } from './glide.js'
import { isUpstash, upstashCommand } from './upstash.js'

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

interface HashReaders {
  hgetall?(key: string): Promise<object>
  hGetAll?(key: string): Promise<object>
}

/**
 * Reads a whole hash by the client's own command: for long values a script would cost the server ten times as much.
 * Returns the reading function; throws `PolicyError`, naming `user`, for a client without such a command.
 */
export function hashReader(client: RedisClient, user: string): (key: string) => Promise<Array<[string, string]>> {
  if (isGlide(client)) {
    return async key => {
      const fields = (await glideCommand(client, ['HGETALL', key])) as Array<{ key: string; value: string }>
      return fields.map(field => [field.key, field.value])
    }
  }
  if (isUpstash(client)) {
    // The client's own command would parse values that look like JSON.
    return async key => {
      const words = (await upstashCommand(client, ['HGETALL', key])) as string[]
      return words.flatMap((word, i) => (i % 2 === 0 ? [[word, words[i + 1]] as [string, string]] : []))
    }
  }
  const { hgetall, hGetAll } = client as HashReaders
  const read = hgetall ?? hGetAll
  if (typeof read !== 'function') {
    throw new PolicyError(
      `${user}: client ${shown(client)}: expected one with hgetall(key) or hGetAll(key), as ioredis and ` +
        'node-redis have',
    )
  }
  return async key => Object.entries(await read.call(client, key)) as Array<[string, string]>
}
