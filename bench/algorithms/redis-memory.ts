import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import { ManualClock } from '../../src/testing.js'
import type { RedisServer } from '../../test/support/redis-server.js'
import { addresses, type State } from './state.js'

const KEYS = 10_000

export interface RedisMemory {
  /** What MEMORY USAGE says of one key: its name, its value and its entry in the table of keys. */
  readonly usage: number
  /** What used_memory grew by for each key: expiry and the tables' own share included. */
  readonly growth: number
}

/** Bytes that Redis holds for each key. */
export async function redisMemory(server: RedisServer, { limit, units }: State): Promise<RedisMemory> {
  const meter = server.client()
  // The server keeps a script once it was run, and that is nothing a key costs.
  await new RedisStore(meter).consume([{ key: 'a first one', limit }], 1)
  await meter.flushall('SYNC')
  const before = await usedMemory(meter)
  // A connection has buffers that count as used memory: it is closed before they are counted.
  const client = server.client()
  const clock = new ManualClock(Date.now())
  const store = new RedisStore(client, { clock })
  const keys = addresses(KEYS)
  for (let unit = 0; unit < units; unit++) {
    clock.advance(1)
    await Promise.all(keys.map(key => store.consume([{ key, limit }], 1)))
  }
  await client.quit()
  const key = await meter.randomkey()
  const usage = await meter.memory('USAGE', key ?? '', 'SAMPLES', 0)
  const growth = ((await usedMemory(meter)) - before) / KEYS
  await meter.quit()
  return { usage: Number(usage), growth }
}

async function usedMemory(meter: Redis): Promise<number> {
  const info = await meter.info('memory')
  return Number(/^used_memory:(\d+)/m.exec(info)?.[1])
}
