// Contenders for permits in Redis.
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { Semaphore as PeerSemaphore } from 'redis-semaphore'
import { Semaphore } from '../../dist/index.mjs'
import { answer, setup } from './answering.mjs'

const { contender, port, permits, name } = setup
const client = new Redis({ port, enableAutoPipelining: false })

/**
 * Holds a permit while it works.
 *
 * @typedef {(work?: () => Promise<void>) => Promise<void>} Use
 * @type {Record<string, () => Use>}
 */
const contenders = {
  spillway() {
    const semaphore = new Semaphore(client, name, { permits })
    return async work => {
      const lease = await semaphore.acquire()
      await work?.()
      await lease.release()
    }
  },
  'redis-semaphore'() {
    return async work => {
      // An object of theirs holds one permit at a time.
      const semaphore = new PeerSemaphore(client, name, permits, { lockTimeout: 30_000, refreshInterval: 10_000 })
      await semaphore.acquire()
      await work?.()
      await semaphore.release()
    }
  },
  /** What waiting costs without Redis. */
  'queue in the process'() {
    /** @type {((value?: unknown) => void)[]} */
    const waiting = []
    let free = permits
    return async work => {
      if (free > 0) free--
      else await new Promise(granted => waiting.push(granted))
      await work?.()
      const next = waiting.shift()
      if (next) next()
      else free++
    }
  },
}
const use = contenders[contender]()

answer({
  /** How many pairs of acquire and release in so many ms, with so many at a time. */
  async pairs({ ms, lanes }) {
    await client.ping()
    const startedAt = performance.now()
    const endsAt = startedAt + ms
    let pairs = 0
    await Promise.all(
      Array.from({ length: lanes }, async () => {
        while (performance.now() < endsAt) {
          await use()
          pairs++
        }
      }),
    )
    return { pairs, ms: performance.now() - startedAt }
  },

  /**
   * How many turns so many lanes have in so many ms, how long the longest of them waited for its turn, and the median of round trips that
   * are as far apart: each finds client and server as idle as a turn does.
   */
  async contended({ ms, lanes, holdMs }) {
    await client.ping()
    const startedAt = performance.now()
    const endsAt = startedAt + ms
    let turns = 0
    let longestMs = 0
    const lane = async () => {
      while (performance.now() < endsAt) {
        const askedAt = performance.now()
        await use(async () => {
          longestMs = Math.max(longestMs, performance.now() - askedAt)
          await sleep(holdMs)
        })
        turns++
      }
    }
    await Promise.all(Array.from({ length: lanes }, lane))
    const tookMs = performance.now() - startedAt
    const roundTripMs = await roundTrip(100, holdMs)
    return { turns, ms: tookMs, longestMs, roundTripMs }
  },

  /** Takes so many turns of so many ms; how often somebody else was inside at the same time. */
  async turns({ turns, holdMs }) {
    let together = 0
    for (let i = 0; i < turns; i++) {
      await use(async () => {
        if ((await client.incr(`${name}:inside`)) !== 1) together++
        await sleep(holdMs)
        await client.decr(`${name}:inside`)
      })
    }
    return together
  },

  roundTrip: () => roundTrip(1000, 0),
})

/**
 * The median of so many round trips with pauses between them, in ms.
 *
 * @param {number} count
 * @param {number} pauseMs
 */
async function roundTrip(count, pauseMs) {
  const times = []
  for (let i = 0; i < count; i++) {
    if (pauseMs > 0) await sleep(pauseMs)
    const before = performance.now()
    await client.ping()
    times.push(performance.now() - before)
  }
  return times.sort((a, b) => a - b)[count / 2]
}
