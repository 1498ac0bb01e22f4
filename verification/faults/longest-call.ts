import { readFile } from 'node:fs/promises'
import type { Redis } from 'ioredis'
import type { RedisServer } from '../../test/support/redis-server.js'

/**
 * For how long the server has waited for a processor since it started, ms: others had it, which makes its calls look
 * longer.
 */
async function waitedMs({ pid }: RedisServer): Promise<number> {
  const [, ns] = (await readFile(`/proc/${pid}/schedstat`, 'utf8')).split(' ')
  return Number(ns) / 1e6
}

/**
 * Watches the script calls of a server. The result tells the longest by the server's clock, and how long the server had
 * to wait meanwhile; ms.
 */
export async function longestCall(
  server: RedisServer,
  admin: Redis,
): Promise<() => Promise<{ longestMs: number; waitedMs: number }>> {
  await admin.config('SET', 'slowlog-log-slower-than', 2000)
  await admin.config('SET', 'slowlog-max-len', 10_000)
  await admin.slowlog('RESET')
  const before = await waitedMs(server)
  return async () => {
    const log = (await admin.slowlog('GET', 10_000)) as [number, number, number, string[]][]
    const scripts = log.filter(([, , , [name]]) => /^eval/i.test(name)).map(([, , us]) => us / 1000)
    return { longestMs: Math.max(0, ...scripts), waitedMs: (await waitedMs(server)) - before }
  }
}
