import { PolicyError, shown } from '../limiter/core/errors.js'
import type { RedisClient } from './client.js'
import { glideCommand, isGlide } from './glide.js'
import { isUpstash, upstashCommand } from './upstash.js'

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
