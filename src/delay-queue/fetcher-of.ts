import type { Clock } from '../core/clock.js'
import type { RedisClient } from '../redis/client.js'
import type { Commands } from '../redis/commands.js'
import { Fetcher } from './fetcher.js'

interface Held {
  readonly fetcher: Fetcher
  holders: number
}

const FETCHERS = new WeakMap<RedisClient, Map<string, Held>>()

/**
 * The fetcher of a queue: one for each client of this process, shared by all queue objects, so that they share one connection for
 * wake-ups. `release` closes it after its last user.
 */
export function holdFetcher(
  client: RedisClient,
  commands: Commands,
  keyBase: string,
  clock: Clock | undefined,
): { fetcher: Fetcher; release: () => Promise<void> } {
  let fetchers = FETCHERS.get(client)
  if (fetchers === undefined) {
    fetchers = new Map()
    FETCHERS.set(client, fetchers)
  }
  let held = fetchers.get(keyBase)
  if (held === undefined) {
    held = { fetcher: new Fetcher(client, commands, keyBase, clock), holders: 0 }
    fetchers.set(keyBase, held)
  }
  const mine = held
  const all = fetchers
  mine.holders++
  return {
    fetcher: mine.fetcher,
    async release() {
      if (--mine.holders > 0) return
      all.delete(keyBase)
      await mine.fetcher.close()
    },
  }
}
