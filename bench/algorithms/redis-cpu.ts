import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import { ManualClock } from '../../src/testing.js'
import type { RedisServer } from '../../test/support/redis-server.js'
import { type Median, median } from '../contest/figures.js'
import { readWork } from '../contest/redis-meter.js'
import { addresses, type State } from './state.js'

const KEYS = 10_000
const TURNS = 7

export interface RedisCpu {
  /** µs a decision with 512 in flight, which travel together. */
  readonly together: Median
  /** µs a decision with one in flight, which travels alone. */
  readonly alone: Median
}

interface Contender {
  readonly name: string
  readonly ask: (key: string) => Promise<unknown>
}

/**
 * The processor time of the server for each decision, including reading, parsing, deciding and answering. All decisions
 * allow. Contenders alternate, so that other load on the machine affects them alike.
 */
export async function redisCpu(server: RedisServer, states: readonly State[]): Promise<Map<string, RedisCpu>> {
  const client = server.client()
  await client.flushall('SYNC')
  const store = new RedisStore(client)
  const contenders: Contender[] = [{ name: 'bare INCR', ask: key => client.incr(key) }]
  for (const { name, limit, units } of states) {
    if (units > 1) contenders.push({ name, ask: await keptFull(client, { name, limit, units }) })
    else contenders.push({ name, ask: key => store.consume([{ key, limit }], 1) })
  }
  const together = await inTurns(client, contenders, 512, 4 * KEYS)
  const alone = await inTurns(client, contenders, 1, KEYS)
  client.disconnect()
  return new Map(
    contenders.map(({ name }) => [name, { together: median(together.get(name)!), alone: median(alone.get(name)!) }]),
  )
}

/**
 * Keeps each key one unit below its limit: while all keys are asked once, time advances by one unit's share of the
 * window, so that each decision drops one entry and adds one.
 */
async function keptFull(client: Redis, { limit, units }: State): Promise<Contender['ask']> {
  const clock = new ManualClock(Date.now())
  const store = new RedisStore(client, { prefix: 'full', clock })
  const step = limit.windowMs / limit.quota
  let asked = 0
  const ask = (key: string) => {
    if (asked++ % KEYS === 0) clock.advance(step)
    return store.consume([{ key, limit }], 1)
  }
  const keys = addresses(KEYS)
  for (let unit = 1; unit < units; unit++) await Promise.all(keys.map(ask))
  return ask
}

async function inTurns(client: Redis, contenders: readonly Contender[], inFlight: number, decisions: number) {
  const figures = new Map<string, number[]>(contenders.map(({ name }) => [name, []]))
  for (const { ask } of contenders) await run(ask, inFlight, KEYS)
  for (let turn = 0; turn < TURNS; turn++) {
    for (const { name, ask } of contenders) {
      const before = await readWork(client)
      await run(ask, inFlight, decisions)
      const after = await readWork(client)
      figures.get(name)!.push((after.cpuUs - before.cpuUs) / decisions)
    }
  }
  return figures
}

async function run(ask: Contender['ask'], inFlight: number, decisions: number): Promise<void> {
  const keys = addresses(KEYS)
  let next = 0
  const asker = async () => {
    // In steps that are coprime to the number of keys: each key comes equally often, without an order that helps
    // caches.
    while (next < decisions) await ask(keys[(next++ * 7919) % KEYS])
  }
  await Promise.all(Array.from({ length: inFlight }, asker))
}
