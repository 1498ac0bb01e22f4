import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { TimeoutError } from '../../../src/limiter/core/errors.js'
import type { Lease } from '../../../src/waiting/semaphore/lease.js'
import { type AcquireOptions, Semaphore, type SemaphoreOptions } from '../../../src/waiting/semaphore/semaphore.js'
import { ofCases } from '../../support/cases.js'
import { type Random, randomFrom } from '../../support/random.js'
import { eventually } from '../../support/redis-process.js'
import { TcpProxy } from '../../support/tcp-proxy.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()
let admin: Redis
beforeAll(() => {
  admin = redis.client()
})

const PROCESSES = 3
const LANES = 3
const TURNS = 14

/** The model: who holds how many permits, by what each process believes of its own leases. */
class Held {
  readonly #leases = new Set<Lease>()
  readonly #tokens = new Set<bigint>()
  most = 0

  constructor(readonly permits: number) {}

  add(lease: Lease): void {
    expect(this.#tokens.has(lease.token)).toBe(false)
    this.#tokens.add(lease.token)
    this.#leases.add(lease)
    let sum = 0
    for (const each of this.#leases) {
      // Reading `held` tells whether its deadline has passed.
      if (each.held) sum += each.permits
      else this.#leases.delete(each)
    }
    this.most = Math.max(this.most, sum)
    expect(sum).toBeLessThanOrEqual(this.permits)
  }

  /** Before the release is sent: from then on Redis may give them to another. */
  remove(lease: Lease): void {
    this.#leases.delete(lease)
  }
}

/** One process: a client of its own behind a proxy that delays, and one object. */
async function processOf(name: string, options: SemaphoreOptions, random: Random) {
  const proxy = await TcpProxy.start(redis.port)
  proxy.delayMs = () => (random.integer(0, 9) === 0 ? random.integer(0, 8) : 0)
  const client = redis.client({ port: proxy.port, retryStrategy: () => 5 })
  const stop = async () => {
    client.disconnect()
    await proxy.stop()
  }
  return { semaphore: new Semaphore(client, name, options), proxy, stop }
}

async function takes(semaphore: Semaphore, permits: number, held: Held, random: Random): Promise<void> {
  const wanted = random.pick([1, 1, 1, 1, Math.min(2, permits), permits])
  const isShort = random.integer(0, 5) === 0
  const abort = new AbortController()
  const options: AcquireOptions = {
    permits: wanted,
    // One that ends by itself, or is held for a moment.
    ...(isShort ? { lease: random.integer(5, 60), renew: false } : { lease: '4s' }),
    ...random.pick([{}, {}, { timeout: random.integer(1, 40) }, { timeout: '20s' }, { signal: abort.signal }]),
  }
  const aborting = options.signal && random.integer(0, 1) === 0 ? sleep(random.integer(0, 15)) : undefined
  void aborting?.then(() => abort.abort(new TimeoutError('given up')))
  let lease: Lease | null
  try {
    lease = random.integer(0, 3) === 0 ? await semaphore.tryAcquire(options) : await semaphore.acquire(options)
  } catch (error) {
    expect(error).toBeInstanceOf(TimeoutError)
    return
  }
  if (lease === null) return
  held.add(lease)
  if (random.integer(0, 2) === 0) await sleep(random.integer(0, 4))
  if (isShort && random.integer(0, 2) > 0) return
  held.remove(lease)
  const isHeld = lease.held
  expect((await lease.release()) || !isHeld || isShort).toBe(true)
}

async function play(id: string): Promise<number> {
  const random = randomFrom(id)
  const permits = random.pick([1, 2, 4, 7, 12])
  const options: SemaphoreOptions = {
    permits,
    ...random.pick([{}, { fixed: true }, { idleTtl: '2s' }, { fixed: true, idleTtl: '2s' }]),
  }
  const name = `schedule ${id}`
  const held = new Held(permits)
  // Held all the time: while there are leases of several permits, the count of permits beyond one is never made anew.
  const witness = new Semaphore(redis.client(), name, options)
  const anchor = permits >= 4 ? await witness.acquire({ permits: 2 }) : undefined
  if (anchor) held.add(anchor)
  const most = permits - (anchor?.permits ?? 0)
  const processes = await Promise.all(Array.from({ length: PROCESSES }, () => processOf(name, options, random)))
  // One of them dies in the middle: it is cut off, and sends nothing more.
  const dies = random.integer(0, 1) === 0 ? random.integer(0, PROCESSES - 1) : -1
  const lanes = processes.flatMap(({ semaphore, proxy }, i) =>
    Array.from({ length: LANES }, async () => {
      // Alone at first, so that permits are taken directly.
      await sleep(i * 25)
      for (let turn = 0; turn < TURNS; turn++) {
        if (i === dies && turn === TURNS / 2) {
          const left = random.integer(1, most)
          await semaphore.tryAcquire({ permits: left, lease: 300, renew: false }).catch(() => {})
          proxy.swallow()
          return
        }
        const done = takes(semaphore, most, held, random)
        // What a dead process still waits for is nobody's business.
        await (i === dies ? Promise.race([done, sleep(2000)]) : done)
        if (i === dies && proxy.isHole) return
      }
    }),
  )
  await Promise.all(lanes)
  await eventually('all permits are free', async () => (await witness.availablePermits()) === most, 30_000)
  if (anchor) expect(await anchor.release()).toBe(true)
  expect(await (await witness.acquire({ permits, timeout: '10s' })).release()).toBe(true)
  expect(await witness.waiting()).toBe(0)
  const lifetimes = await Promise.all(
    (await admin.keys(`spillway:{${name}}:semaphore:*`)).map(async key => admin.pttl(key)),
  )
  expect(lifetimes.filter(ms => ms === -1)).toEqual([])
  await Promise.all(processes.map(({ stop }) => stop()))
  return held.most
}

test('processes that take, give up, die and let leases end never hold more than all permits, and all are free in the end', async () => {
  const ids = Array.from({ length: ofCases(40) }, (_, i) => `semaphore ${i}`)
  let most = 0
  for (let from = 0; from < ids.length; from += 4) {
    const found = await Promise.all(
      ids.slice(from, from + 4).map(id =>
        play(id).catch(error => {
          error.message = `in the schedule ${JSON.stringify(id)}: ${error.message}`
          throw error
        }),
      ),
    )
    most = Math.max(most, ...found)
  }
  // Otherwise nothing was held together.
  expect(most).toBeGreaterThan(1)
}, 120_000)
