import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
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

/** Waits until `check` holds, asking every 10 ms; rejects after `timeoutMs` with `what`. */
export async function eventually(what: string, check: () => Promise<boolean>, timeoutMs = 20_000): Promise<void> {
  const end = performance.now() + timeoutMs
  // A check that is never answered is over then, too.
  const over = pause(timeoutMs, false, { ref: false })
  while (!(await Promise.race([check().catch(() => false), over]))) {
    if (performance.now() >= end) throw new Error(`${what}: not within ${timeoutMs} ms`)
    await pause(10)
  }
}
