// Contenders for permits in Redis.
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { Semaphore as PeerSemaphore } from 'redis-semaphore'
import { Semaphore } from '../../dist/index.mjs'
import { answer, setup } from './answering.mjs'

const { contender, port, permits, name } = setup
/** @type {any} with the command of the least script */
const client = new Redis({ port, enableAutoPipelining: false })
const LEAST = `
local time = redis.call('TIME')
local deadline = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1])
local granted, leases = tonumber(ARGV[2]), {}
for i = 1, granted do
  leases[2 * i - 1], leases[2 * i] = deadline, ARGV[2 + i]
end
if granted > 0 then redis.call('ZADD', KEYS[1], unpack(leases)) end
if #ARGV > 2 + granted then redis.call('ZREM', KEYS[1], unpack(ARGV, 3 + granted)) end
return deadline`

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
  'with a timeout'() {
    const semaphore = new Semaphore(client, name, { permits })
    return async work => {
      const lease = await semaphore.acquire({ timeout: '5s' })
      await work?.()
      await lease.release()
    }
  },
  /** As `concurrencyLimit` over Redis takes and gives back a place. */
  'a place of concurrencyLimit'() {
    const semaphore = new Semaphore(client, name, { permits, idleTtl: '10s', fixed: true })
    return async work => {
      const lease = await semaphore.tryAcquire({ lease: 30_000 })
      if (lease === null) throw new Error('no place is free')
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
  /**
   * The least that a queue over Redis can do: the line stands in the process, and one script for each turn of the event
   * loop ends leases and makes as many. It knows no other process, no loss and no lifetime.
   */
  'least script'() {
    /** @type {((id: string) => void)[]} */
    const waiting = []
    /** @type {{ id: string, done: (value?: unknown) => void }[]} */
    let ended = []
    let held = 0
    let scheduled = false
    const ask = async () => {
      scheduled = false
      const releases = ended
      ended = []
      const granted = waiting.splice(0, permits - held + releases.length)
      held += granted.length - releases.length
      const ids = granted.map(() => randomBytes(16).toString('base64url'))
      await client.leastSemaphore(name, 30_000, ids.length, ...ids, ...releases.map(({ id }) => id))
      for (const [i, grant] of granted.entries()) grant(ids[i])
      for (const { done } of releases) done()
    }
    const schedule = () => {
      if (!scheduled) setImmediate(ask)
      scheduled = true
    }
    client.defineCommand('leastSemaphore', { numberOfKeys: 1, lua: LEAST })
    return async work => {
      const id = await new Promise(granted => {
        waiting.push(granted)
        if (held < permits) schedule()
      })
      await work?.()
      await new Promise(done => {
        ended.push({ id, done })
        schedule()
      })
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
let round = 0

/** @param {string} key */
async function pairUnder(key) {
  if (contender === 'redis-semaphore') {
    const semaphore = new PeerSemaphore(client, key, permits, { lockTimeout: 30_000, refreshInterval: 10_000 })
    await semaphore.acquire()
    await semaphore.release()
    return
  }
  const semaphore = new Semaphore(client, key, { permits, idleTtl: '10s', fixed: true })
  const lease = await semaphore.tryAcquire({ lease: 30_000 })
  await lease?.release()
}

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
   * How many turns so many lanes have in so many ms, how long the longest of them waited for its turn, and the median
   * of round trips that are as far apart: each finds client and server as idle as a turn does.
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

  /** So many turns, in which nothing is done. */
  async turnsAtOnce({ turns }) {
    for (let i = 0; i < turns; i++) await use()
  },

  /** One pair under each of so many new names, by an object of its own; how long all took, in ms. */
  async once({ names, lanes }) {
    await client.ping()
    const startedAt = performance.now()
    let next = 0
    await Promise.all(
      Array.from({ length: lanes }, async () => {
        for (let i = next++; i < names; i = next++) await pairUnder(`${name}-${round}-${i}`)
      }),
    )
    round++
    return performance.now() - startedAt
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
