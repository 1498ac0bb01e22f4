import type { Clock } from '../core/clock.js'
import { getOrMake } from '../core/get-or-make.js'
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
  const fetchers = getOrMake(FETCHERS, client, () => new Map())
  const held = getOrMake(fetchers, keyBase, () => ({
    fetcher: new Fetcher(client, commands, keyBase, clock),
    holders: 0,
  }))
  held.holders++
  return {
    fetcher: held.fetcher,
    async release() {
      if (--held.holders > 0) return
      fetchers.delete(keyBase)
      await held.fetcher.close()
    },
  }
}
