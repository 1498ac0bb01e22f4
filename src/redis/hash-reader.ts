import { PolicyError, shown } from '../core/errors.js'
import type { RedisClient } from './client.js'
import { glideCommand, isGlide } from './glide/port.js'

interface HashReaders {
  hgetall?(key: string): Promise<object>
  hGetAll?(key: string): Promise<object>
}

/**
 * Reads a whole hash by the client's own command: for long values a script would cost the server ten times as much. Returns the reading function; throws `PolicyError`, naming
 * `user`, for a client without such a command.
 */
export function hashReader(client: RedisClient, user: string): (key: string) => Promise<Array<[string, string]>> {
  if (isGlide(client)) {
    return async key => {
      const fields = (await glideCommand(client, ['HGETALL', key])) as Array<{ key: string; value: string }>
      return fields.map(field => [field.key, field.value])
    }
  }
  const { hgetall, hGetAll } = client as HashReaders
  const read = hgetall ?? hGetAll
  if (typeof read !== 'function') {
    throw new PolicyError(
      `${user}: client ${shown(client)}: expected one with hgetall(key) or hGetAll(key), as ioredis and node-redis have`,
    )
  }
  return async key => Object.entries(await read.call(client, key)) as Array<[string, string]>
}
