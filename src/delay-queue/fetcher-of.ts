import type { Clock } from '../core/clock.js'
import type { RedisClient } from '../redis/client.js'
import type { Commands } from '../redis/commands.js'
import { Fetcher } from './fetcher.js'

interface Held {
  readonly intake: Fetcher
  holders: number
}

const INTAKES = new WeakMap<RedisClient, Map<string, Held>>()

/**
 * The intake of a queue: one for each client of this process, however many objects use it, so that they share one connection to be
 * woken on. `release` ends it with its last holder.
 */
export function holdFetcher(
  client: RedisClient,
  commands: Commands,
  keyBase: string,
  clock: Clock | undefined,
): { intake: Fetcher; release: () => void } {
  let intakes = INTAKES.get(client)
  if (intakes === undefined) {
    intakes = new Map()
    INTAKES.set(client, intakes)
  }
  let held = intakes.get(keyBase)
  if (held === undefined) {
    held = { intake: new Fetcher(client, commands, keyBase, clock), holders: 0 }
    intakes.set(keyBase, held)
  }
  const mine = held
  const all = intakes
  mine.holders++
  return {
    intake: mine.intake,
    release: () => {
      if (--mine.holders > 0) return
      mine.intake.close()
      all.delete(keyBase)
    },
  }
}
