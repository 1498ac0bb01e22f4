import { OutageWarnings } from '../core/outage-warnings.js'
import type { RedisClient } from './client.js'
import { portOf } from './port-of.js'

interface Address {
  readonly host?: unknown
  readonly port?: unknown
  readonly path?: unknown
}

/** The address of a client's server, for messages: "127.0.0.1:6379", or "a cluster". Contains no user name or password. */
export function clientName(client: RedisClient): string {
  if (portOf(client, 'client').cluster) return 'a cluster'
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
