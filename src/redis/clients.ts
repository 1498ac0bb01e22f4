import { PolicyError, shown } from '../limiter/core/errors.js'
import { getOrMake } from '../limiter/core/maps.js'
import { emitWarning, OutageWarnings } from '../limiter/core/warnings.js'
import * as bun from './bun.js'
import type { ClientPort, GaveUp, OpenBlocking, OpenListening, RedisClient, RedisConnection } from './client.js'
import * as glide from './glide.js'
import * as ioredis from './ioredis.js'
import * as nodeRedis from './node-redis.js'
import * as upstash from './upstash.js'

const PORTS = new WeakMap<RedisClient, ClientPort>()

/**
 * The port to a client, recognised by its shape; one for each client, shared by all objects. Throws `PolicyError` for
 * anything else; `user` names the class that was given the client.
 */
export function portOf(client: RedisClient, user: string): ClientPort {
  if (typeof client !== 'object' || client === null) throw unknown(client, user)
  return getOrMake(PORTS, client, () => newPort(client, user))
}

/** For objects that leave to others which clients there are. Throws `PolicyError`: see `portOf`. */
export function connectionOf(client: RedisClient, user: string): RedisConnection {
  return {
    client,
    port: portOf(client, user),
    get address() {
      return clientName(client)
    },
  }
}

function newPort(client: RedisClient, user: string): ClientPort {
  if (ioredis.isIoredis(client)) return ioredis.ioredisPort(client, warnOnce(client))
  const refusal = nodeRedis.nodeRedisRefusal(client)
  if (refusal !== undefined) throw new PolicyError(`${user}: client ${refusal}`)
  if (nodeRedis.isNodeRedis(client)) return nodeRedis.nodeRedisPort(client, warnOnce(client))
  if (glide.isGlide(client)) return glide.glidePort(client)
  if (upstash.isUpstash(client)) return upstash.upstashPort(client)
  if (bun.isBun(client)) return bun.bunPort(client, warnOnce(client))
  throw unknown(client, user)
}

function warnOnce(client: RedisClient): GaveUp {
  let hasWarned = false
  return ({ option, example }) => {
    if (hasWarned) return
    hasWarned = true
    emitWarning(
      'SPILLWAY_STORE',
      `The client of Redis at ${clientName(client)} has given up: its ${option} has ended its attempts to ` +
        'connect. The failure policy decides until it is connected again. Give it a strategy that never gives ' +
        `up, like ${example}, and restart the process or call connect().`,
    )
  }
}

function unknown(client: unknown, user: string): PolicyError {
  return new PolicyError(
    `${user}: client ${shown(client)}: expected a client of ioredis or iovalkey, like new ` +
      "Redis('redis://127.0.0.1:6379') or new Cluster([…]), of node-redis, like createClient({ url: " +
      "'redis://127.0.0.1:6379' }), createCluster or createSentinel, of Bun 1.4, like new RedisClient(url), of @upstash/redis, like new Redis({ url: " +
      "'https://…', token }), or of @valkey/valkey-glide, like await GlideClient.createClient({ addresses: […] " +
      '}) or GlideClusterClient',
  )
}

interface Address {
  readonly host?: unknown
  readonly port?: unknown
  readonly path?: unknown
}

/**
 * The address of a client's server, for messages: "127.0.0.1:6379", or "a cluster". Contains no user name or password.
 */
export function clientName(client: RedisClient): string {
  if (portOf(client, 'client').cluster) return 'a cluster'
  if (upstash.isUpstash(client)) return addressOf({ url: client.client.baseUrl })
  const { options, config } = client as {
    options?: Address & { socket?: Address; url?: unknown }
    /** Of GLIDE. */
    config?: { addresses?: readonly Address[] }
  }
  return addressOf(options ?? config?.addresses?.[0])
}

/** The warnings of an outage of a client's server: see `OutageWarnings`. */
export function redisWarnings(client: RedisClient, meanwhile: string, code?: string): OutageWarnings {
  return new OutageWarnings(client, () => `Redis at ${clientName(client)}`, meanwhile, undefined, code)
}

function addressOf(options: (Address & { socket?: Address; url?: unknown }) | undefined): string {
  const { host, port, path } = options?.socket ?? options ?? {}
  if (typeof path === 'string') return path
  if (typeof host === 'string') return `${host}:${port ?? 6379}`
  const url = options?.url
  if (typeof url === 'string' && URL.canParse(url)) return new URL(url).host
  return 'its server'
}

/**
 * Opens blocking connections beside this client; undefined if it cannot be duplicated, like a sentinel of node-redis,
 * has no connections, like @upstash/redis, or none that do not reconnect, like that of Bun.
 */
export function blockingOf(client: RedisClient): OpenBlocking | undefined {
  if (ioredis.isIoredisBlocker(client)) return ioredis.ioredisBlocking(client)
  if (nodeRedis.isNodeRedisBlocker(client)) return nodeRedis.nodeRedisBlocking(client)
  return glide.isGlideBlocker(client) ? glide.glideBlocking(client) : undefined
}

/**
 * Opens listening connections beside this client; undefined if the client provides none, like a node-redis sentinel,
 * GLIDE before 2.3, @upstash/redis, and that of Bun.
 */
export function listeningOf(client: RedisClient): OpenListening | undefined {
  if (ioredis.isIoredisListener(client)) return ioredis.ioredisListening(client)
  if (nodeRedis.isNodeRedisListener(client)) return nodeRedis.nodeRedisListening(client)
  return glide.isGlideListener(client) ? glide.glideListening(client) : undefined
}
