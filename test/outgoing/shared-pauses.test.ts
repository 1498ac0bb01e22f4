import { once } from 'node:events'
import { expect, jest, test } from '@jest/globals'
import { StoreError } from '../../src/limiter/core/errors.js'
import { RedisPause } from '../../src/outgoing/pause.js'
import { guardRedis } from '../../src/redis/guarded-redis.js'
import { ofCases } from '../support/cases.js'
import { randomFrom } from '../support/random.js'
import type { RedisServer } from '../support/redis-server.js'
import { testRedis } from '../support/test-redis.js'

const LONG = 600_000
const PROCESSES = [0, 1, 2]

const redis = testRedis()

// The model is verification/proofs/pauses.
test('whatever is paused, resumed and cut off in which order, every process that Redis answers knows the pauses that nobody has ended', async () => {
  for (let round = 0; round < ofCases(25); round++) {
    const random = randomFrom(`pauses ${round}`)
    const clients = PROCESSES.map(() => redis.client())
    const pauses = clients.map(client => {
      const user = { name: 'politeFetch', meanwhile: 'each process counts alone' }
      const guarded = guardRedis(client, 5000, {}, user)
      return new RedisPause({ client, prefix: 'spillway', partner: `p${round}`, guarded, longestMs: 3_600_000 })
    })
    await Promise.all(clients.map(client => client.ping()))
    const connected = new Set(PROCESSES)
    /** Where pauses began that nobody has ended, and that Redis does not know yet. */
    const own = new Set<number>()
    let isShared = false
    for (let step = 0; step < 30; step++) {
      const process = random.pick(PROCESSES)
      const what = random.integer(0, 4)
      if (what <= 1) {
        pauses[process].begin(LONG)
        if (!isShared || !connected.has(process)) own.add(process)
      } else if (what === 2) {
        const resumed = pauses[process].resume()
        if (connected.has(process)) {
          await resumed
          isShared = false
          own.clear()
        } else {
          await expect(resumed).rejects.toThrow(StoreError)
          own.delete(process)
        }
      } else if (what === 3) {
        // Until its connection has ended, a client refuses to connect anew.
        if (connected.has(process)) {
          const ended = once(clients[process], 'end')
          clients[process].disconnect()
          await ended
        }
        connected.delete(process)
      } else if (!connected.has(process)) {
        await clients[process].connect()
        connected.add(process)
      }
      // Twice, so that each hears what the others report. A moment is a whole millisecond: the next step is later.
      for (let i = 0; i < 2; i++) {
        for (const one of connected) expect(await pauses[one].answers()).toBe(true)
      }
      const now = performance.now()
      while (performance.now() < now + 2) await new Promise(resolve => setImmediate(resolve))
      for (const one of own) {
        if (!connected.has(one)) continue
        isShared = true
        own.delete(one)
      }
      for (const one of connected)
        expect([round, step, one, pauses[one].leftMs > 0]).toEqual([round, step, one, isShared])
    }
    for (const client of clients) client.disconnect()
  }
}, 120_000)

test('a pause ends in no process before it ends in Redis, also where the process was interrupted while it asked', async () => {
  const [teller, client] = [redis.client(), redis.client()]
  const user = { name: 'politeFetch', meanwhile: 'each process counts alone' }
  const pauseOf = (client: ReturnType<RedisServer['client']>) => {
    const guarded = guardRedis(client, 5000, {}, user)
    return new RedisPause({ client, prefix: 'spillway', partner: 'slow', guarded, longestMs: 3_600_000 })
  }
  const told = pauseOf(teller)
  told.begin(LONG)
  await told.answers()
  const asked = pauseOf(client)
  // Redis and the process have met before.
  await asked.answers()
  let aheadMs = 0
  const real = performance.now.bind(performance)
  const clock = jest.spyOn(performance, 'now').mockImplementation(() => real() + aheadMs)
  const send = client.sendCommand.bind(client)
  const sends = jest.spyOn(client, 'sendCommand').mockImplementation((...words) => {
    // Interrupted before the command leaves: Redis is asked that much later.
    aheadMs = 3000
    return send(...words)
  })
  try {
    expect(await asked.answers()).toBe(true)
    const [key] = await teller.keys('*slow*')
    const [, , endsAt] = `${await teller.get(key)}`.split(' ')
    const before = real()
    const [seconds, micros] = await teller.time()
    // Redis counts whole ms.
    const leftMs = Number(endsAt) - Number(seconds) * 1000 - Math.floor(Number(micros) / 1000)
    expect(leftMs).toBeGreaterThan(0)
    expect(asked.leftMs + real() - before).toBeGreaterThanOrEqual(leftMs - 1)
  } finally {
    clock.mockRestore()
    sends.mockRestore()
  }
})
