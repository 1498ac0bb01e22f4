import { PolicyError, shown } from '../../limiter/core/errors.js'
import { type InspectOptions, type Listed, listLimit } from '../../limiter/core/listed.js'
import { getOrMake } from '../../limiter/core/maps.js'
import { checkOptions, checkText, type OptionNames } from '../../limiter/core/options.js'
import { callByNode } from '../calls-by-node.js'
import { Commands, clockArgument } from '../commands.js'
import { blockedKeys } from '../scripts.js'
import type { BlockList } from './charge-keys.js'
import type { RedisCounts } from './redis-counts.js'

/** Options of `RedisStore.inspect`. */
export interface StoreInspectOptions extends InspectOptions {
  /** The name of a limiter over this store, like 'login', or names of several. */
  limiter: string | readonly string[]
  /** Only this key, like 'user:42'. Default: all. */
  key?: string
}

/** A blocked key. */
export interface BlockedKey {
  /** The name of the limiter that refuses it. */
  readonly limiter: string
  /** As it was given to the limiter; of more than 200 characters, its hash. */
  readonly key: string
  /** When the block ends: ms since the epoch, by the server's clock. */
  readonly until: number
}

/** What a store tells about limiters. */
export interface StoreView {
  /** The blocked keys, those whose blocks end last at the beginning. Of several limits, there may be more than `more`. */
  readonly blocked: Listed<BlockedKey>
}

const OPTIONS: OptionNames<StoreInspectOptions> = { limiter: true, key: true, limit: true }
const USER = 'RedisStore: inspect'

type Row = BlockList & { readonly limiter: string }

/** Looks for the keys that are blocked under the limits that this store has met. */
export class BlockedKeys {
  readonly #counts: RedisCounts
  readonly #commands: Commands

  constructor(counts: RedisCounts) {
    this.#counts = counts
    const { connection, prefix } = counts.parts
    this.#commands = new Commands(connection.client, USER, prefix)
  }

  async inspect(options: StoreInspectOptions): Promise<StoreView> {
    checkOptions(USER, options, OPTIONS, '{ limiter: "login" }')
    const { limiter, key } = options
    const limit = listLimit(options.limit, USER)
    if (key !== undefined) checkText(key, `${USER}: key`, 'user:42')
    const { keys, parts, clock } = this.#counts
    const rows = namesOf(limiter).flatMap(name =>
      keys.blockLists(name, key).map((list): Row => ({ ...list, limiter: name })),
    )
    const found = new Map<string, BlockedKey>()
    /** For each limiter and tag: how many are blocked under the limit that blocks most. */
    const counted = new Map<string, number>()
    let isWhole = true
    await callByNode(parts.connection.port, rows, async some => {
      const members = key === undefined ? [] : some.map(list => keys.memberOf(list, key))
      const args = [clockArgument(clock), String(limit), ...members]
      const lists = some.map(list => list.key)
      const reply = (await this.#commands.run(blockedKeys, lists, args)) as Array<Array<number | string>>
      for (const [i, [count, ...entries]] of reply.entries()) {
        const list = some[i]
        const place = `${list.limiter} ${list.tag}`
        counted.set(
          place,
          Math.max(
            getOrMake(counted, place, () => 0),
            Number(count),
          ),
        )
        if (entries.length < 2 * Number(count)) isWhole = false
        for (let j = 0; j < entries.length; j += 2) {
          const blocked = {
            limiter: list.limiter,
            key: keys.clientOf(list, String(entries[j])),
            until: Number(entries[j + 1]),
          }
          const id = JSON.stringify([blocked.limiter, blocked.key])
          if ((found.get(id)?.until ?? 0) < blocked.until) found.set(id, blocked)
        }
      }
    })
    const items = [...found.values()].sort((a, b) => b.until - a.until).slice(0, limit)
    const atLeast = [...counted.values()].reduce((sum, count) => sum + count, 0)
    const all = isWhole ? found.size : Math.max(found.size, atLeast)
    return { blocked: { items, more: all - items.length } }
  }
}

function namesOf(limiter: unknown): readonly string[] {
  const names: readonly unknown[] = Array.isArray(limiter) ? limiter : [limiter]
  for (const name of names) {
    if (typeof name === 'string') continue
    throw new PolicyError(`${USER}: limiter ${shown(name)}: expected the name of a limiter, like "login"`)
  }
  return names as readonly string[]
}
