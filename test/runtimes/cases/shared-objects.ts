import assert from 'node:assert/strict'
import { DelayQueue, type RedisClient, Semaphore, SharedRateLimiter } from 'spillway'
import { eventually } from '../../support/eventually.js'
import { type Case, sleep } from '../case.js'
import { CLIENTS, freshName, withTwo } from '../clients.js'

export const sharedObjects: Case[] = Object.entries(CLIENTS).flatMap(([name, open]) => [
  { name: `SharedRateLimiter, ${name}`, run: () => withTwo(open, rate) },
  { name: `Semaphore, ${name}`, run: () => withTwo(open, semaphore) },
  { name: `DelayQueue, ${name}`, run: () => withTwo(open, queue) },
])

async function rate(...clients: RedisClient[]): Promise<string> {
  const name = freshName()
  const [one, other] = clients.map(client => new SharedRateLimiter(client, name))
  await one.setRate({ rate: 4, interval: '600ms' })
  const taken = await Promise.all(Array.from({ length: 6 }, (_, i) => (i % 2 ? one : other).tryAcquire()))
  assert.equal(taken.filter(Boolean).length, 4)
  const startedAt = performance.now()
  await Promise.all(Array.from({ length: 8 }, (_, i) => (i % 2 ? one : other).acquire(1, { timeout: '10s' })))
  // The first four come after one interval, the others after two; some of the first interval has passed.
  const ms = performance.now() - startedAt
  assert.ok(ms > 600, `8 more permits of 4 per 600 ms after ${ms} ms`)
  await one.delete()
  await Promise.all([one.close(), other.close()])
  return 'at once and waiting'
}

async function semaphore(...clients: RedisClient[]): Promise<string> {
  const name = freshName()
  const [one, other] = clients.map(client => new Semaphore(client, name, { permits: 1 }))
  const lease = await one.acquire({ lease: '1s' })
  assert.equal(await other.tryAcquire(), null)
  let next: { token: bigint } | undefined
  const waiting = other.acquire({ timeout: '10s' }).then(async granted => {
    next = granted
    await granted.release()
  })
  // Longer than the lease: it is extended while its process lives.
  await sleep(1300)
  assert.deepEqual([lease.held, next], [true, undefined])
  await lease.release()
  await waiting
  assert.ok(next !== undefined && next.token > lease.token)
  await one.delete()
  await Promise.all([one.close(), other.close()])
  return 'held, extended and handed over'
}

async function queue(...clients: RedisClient[]): Promise<string> {
  const name = freshName()
  const [one, other] = clients.map(client => new DelayQueue<{ n: number }>(client, name))
  const done: number[] = []
  const consumer = other.consume(async ({ payload, attempt }) => {
    if (payload.n === 1 && attempt === 1) throw new Error('once more')
    done.push(payload.n)
  })
  const startedAt = performance.now()
  await one.push({ n: 2 }, { delay: '200ms' })
  await one.push({ n: 0 })
  // A receiver that cannot block asks once a second, and finds both.
  await eventually('both are done', () => done.length === 2)
  assert.ok(performance.now() - startedAt > 198)
  await one.push({ n: 1 })
  await eventually('it is tried again', () => done.length === 3)
  assert.deepEqual(done, [0, 2, 1])
  await consumer.close()
  await Promise.all([one.close(), other.close()])
  return 'in time, and again after an error'
}
