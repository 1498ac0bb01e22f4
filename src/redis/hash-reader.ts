import { PolicyError, shown } from '../core/errors.js'
import type { RedisClient } from './client.js'

interface HashReaders {
  hgetall?(key: string): Promise<object>
  hGetAll?(key: string): Promise<object>
}

/**
 * Reads a whole hash by the client's own command: of long values a script would cost the server ten times as much. Gives what can read; `PolicyError`, naming
 * `user`, for a client that cannot.
 */
export function hashReader(client: RedisClient, user: string): (key: string) => Promise<Array<[string, string]>> {
  const { hgetall, hGetAll } = client as HashReaders
  const read = hgetall ?? hGetAll
  if (typeof read !== 'function') {
    throw new PolicyError(
      `${user}: client ${shown(client)}: expected one with hgetall(key) or hGetAll(key), as ioredis and node-redis have`,
    )
  }
  return async key => Object.entries(await read.call(client, key)) as Array<[string, string]>
}
