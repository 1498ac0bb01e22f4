import { StoreError } from '../limiter/core/errors.js'
import { bunCommand, isBun } from './bun.js'
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

type Visit = (key: string) => Promise<unknown>

/**
 * Removes all keys that match a pattern: see `walkKeys`. For requests by people, never for a decision. Keys that are
 * written meanwhile may stay.
 */
export function unlinkAll(client: RedisClient, pattern: string): Promise<void> {
  return walkKeys(client, pattern)
}

/**
 * Visits all keys that match a pattern, on every server of a cluster; without `visit`, removes them. A scan that takes
 * time in proportion to the database, a step at a time.
 */
export async function walkKeys(client: RedisClient, pattern: string, visit?: Visit): Promise<void> {
  if (isIoredis(client)) return walkIoredis(client as IoredisKeys, pattern, visit)
  if (isNodeRedis(client)) return walkNodeRedis(client as NodeRedisKeys, pattern, visit)
  if (isGlide(client)) {
    for (const route of await glideNodes(client)) {
      await walkByCommands(
        (...words) => glideCommand(client, words, words[0] === 'SCAN' ? route : undefined),
        pattern,
        visit,
      )
    }
    return
  }
  if (isUpstash(client)) return walkByCommands((...words) => upstashCommand(client, words), pattern, visit)
  if (isBun(client)) return walkByCommands((...words) => bunCommand(client, words), pattern, visit)
  throw new StoreError('the client cannot walk through the keys of its server')
}

async function walkIoredis(client: IoredisKeys, pattern: string, visit?: Visit): Promise<void> {
  const act = visit ?? (key => client.unlink(key))
  // ioredis adds its key prefix to the keys of commands, but not to patterns, and does not strip it from the keys
  // found.
  const ahead = client.options?.keyPrefix ?? ''
  for (const node of client.isCluster ? client.nodes!('master') : [client]) {
    const step: Step = async cursor => {
      const [next, keys] = await node.scan(cursor, 'MATCH', literal(ahead) + pattern, 'COUNT', A_STEP)
      return { cursor: next, keys }
    }
    await walk(step, key => act(key.slice(ahead.length)))
  }
}

async function walkNodeRedis(client: NodeRedisKeys, pattern: string, visit?: Visit): Promise<void> {
  const nodes = client.masters ? await Promise.all(client.masters.map(master => client.nodeClient!(master))) : [client]
  for (const node of nodes) {
    const step: Step = async cursor => {
      const reply = await node.scan(cursor, { MATCH: pattern, COUNT: A_STEP })
      return { cursor: String(reply.cursor), keys: reply.keys }
    }
    await walk(step, visit ?? (key => client.unlink(key)))
  }
}

async function walkByCommands(
  send: (...words: string[]) => Promise<unknown>,
  pattern: string,
  visit?: Visit,
): Promise<void> {
  const step: Step = async cursor => {
    const reply = await send('SCAN', cursor, 'MATCH', pattern, 'COUNT', String(A_STEP))
    const [next, keys] = reply as [string, string[]]
    return { cursor: next, keys }
  }
  await walk(step, visit ?? (key => send('UNLINK', key)))
}

async function walk(step: Step, visit: Visit): Promise<void> {
  let cursor = '0'
  do {
    const found = await step(cursor)
    cursor = found.cursor
    await Promise.all(found.keys.map(visit))
  } while (cursor !== '0')
}

/** A pattern that matches this text only. */
export function literal(text: string): string {
  return text.replace(/[\\*?[\]^-]/g, '\\$&')
}
