import { StoreError } from '../core/errors.js'
import type { RedisClient } from './client.js'
import { glideCommand, glideNodes, isGlide } from './glide.js'
import { type IoredisLike, isIoredis } from './ioredis.js'
import { isNodeRedis, type NodeRedisLike } from './node-redis.js'
import { isUpstash, upstashCommand } from './upstash.js'

const A_STEP = 1000

/** One step of a walk through the keys of one server. */
type Step = (cursor: string) => Promise<{ cursor: string; keys: readonly string[] }>

interface IoredisKeys extends IoredisLike {
  nodes?(role?: 'all' | 'master'): IoredisKeys[]
  scan(cursor: string, match: 'MATCH', pattern: string, count: 'COUNT', step: number): Promise<[string, string[]]>
  unlink(key: string): Promise<unknown>
}

interface NodeRedisKeys extends NodeRedisLike {
  nodeClient?(master: unknown): Promise<NodeRedisKeys> | NodeRedisKeys
  scan(cursor: string, options: { MATCH: string; COUNT: number }): Promise<{ cursor: unknown; keys: string[] }>
  unlink(key: string): Promise<unknown>
}

/**
 * Removes all keys that match a pattern, on every server of a cluster: a scan that takes time in proportion to the database, a step at
 * a time. For requests by people, never for a decision. Keys that are written meanwhile may stay.
 */
export async function unlinkAll(client: RedisClient, pattern: string): Promise<void> {
  if (isIoredis(client)) return unlinkByIoredis(client as IoredisKeys, pattern)
  if (isNodeRedis(client)) return unlinkByNodeRedis(client as NodeRedisKeys, pattern)
  if (isGlide(client)) {
    for (const route of await glideNodes(client)) {
      await unlinkByCommands(
        (...words) => glideCommand(client, words, words[0] === 'SCAN' ? route : undefined),
        pattern,
      )
    }
    return
  }
  if (isUpstash(client)) return unlinkByCommands((...words) => upstashCommand(client, words), pattern)
  throw new StoreError('the client cannot walk through the keys of its server')
}

async function unlinkByIoredis(client: IoredisKeys, pattern: string): Promise<void> {
  // ioredis adds its key prefix to the keys of commands, but not to patterns, and does not strip it from the keys found.
  const ahead = client.options?.keyPrefix ?? ''
  for (const node of client.isCluster ? client.nodes!('master') : [client]) {
    const step: Step = async cursor => {
      const [next, keys] = await node.scan(cursor, 'MATCH', literal(ahead) + pattern, 'COUNT', A_STEP)
      return { cursor: next, keys }
    }
    await walk(step, key => client.unlink(key.slice(ahead.length)))
  }
}

async function unlinkByNodeRedis(client: NodeRedisKeys, pattern: string): Promise<void> {
  const nodes = client.masters ? await Promise.all(client.masters.map(master => client.nodeClient!(master))) : [client]
  for (const node of nodes) {
    const step: Step = async cursor => {
      const reply = await node.scan(cursor, { MATCH: pattern, COUNT: A_STEP })
      return { cursor: String(reply.cursor), keys: reply.keys }
    }
    await walk(step, key => client.unlink(key))
  }
}

async function unlinkByCommands(send: (...words: string[]) => Promise<unknown>, pattern: string): Promise<void> {
  const step: Step = async cursor => {
    const reply = await send('SCAN', cursor, 'MATCH', pattern, 'COUNT', String(A_STEP))
    const [next, keys] = reply as [string, string[]]
    return { cursor: next, keys }
  }
  await walk(step, key => send('UNLINK', key))
}

async function walk(step: Step, unlink: (key: string) => Promise<unknown>): Promise<void> {
  let cursor = '0'
  do {
    const found = await step(cursor)
    cursor = found.cursor
    await Promise.all(found.keys.map(unlink))
  } while (cursor !== '0')
}

/** A pattern that matches this text only. */
export function literal(text: string): string {
  return text.replace(/[\\*?[\]^-]/g, '\\$&')
}
