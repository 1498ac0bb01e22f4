import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { ServerProcess } from './server-process.js'

let binary: string | undefined

/** The server program on this machine: redis-server, or valkey-server. */
export function redisBinary(): string {
  const folders = (process.env.PATH ?? '').split(delimiter)
  binary ??= ['redis-server', 'valkey-server'].find(name => folders.some(folder => existsSync(join(folder, name))))
  if (!binary) throw new Error('no redis-server or valkey-server on PATH: run `node scripts/ensure.mjs redis`')
  return binary
}

export function startRedis(args: readonly string[], dir: string, env?: Readonly<Record<string, string>>) {
  return ServerProcess.start({
    command: redisBinary(),
    args,
    dir,
    env,
    ready: /Ready to accept connections|Sentinel ID is/,
    portTaken: /Address already in use|Failed listening on port/,
  })
}
