import type { RedisClient } from './client.js'

interface Address {
  readonly host?: unknown
  readonly port?: unknown
  readonly path?: unknown
}

/** Where a client connects to, for messages: "127.0.0.1:6379", or "a cluster". Nothing of a user or a password. */
export function clientName(client: RedisClient): string {
  const { isCluster, options, slots } = client as {
    isCluster?: unknown
    slots?: unknown
    options?: Address & { socket?: Address; url?: unknown }
  }
  return isCluster === true || slots !== undefined ? 'a cluster' : addressOf(options)
}

function addressOf(options: (Address & { socket?: Address; url?: unknown }) | undefined): string {
  const { host, port, path } = options?.socket ?? options ?? {}
  if (typeof path === 'string') return path
  if (typeof host === 'string') return `${host}:${port ?? 6379}`
  const url = options?.url
  if (typeof url === 'string' && URL.canParse(url)) return new URL(url).host
  return 'its server'
}
