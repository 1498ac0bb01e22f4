import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, expect, test } from '@jest/globals'
import { ChatPartner } from '../support/chat-partner.js'
import type { Chat, Chatted } from '../support/chat-worker.js'
import { RedisServer } from '../support/redis-server.js'

const [CALLS, TOKENS, INTERVAL_MS] = [500, 200_000, 2000]
const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function start(processes: number) {
  const redis = await RedisServer.start()
  cleanups.push(() => redis.stop())
  const partner = new ChatPartner(CALLS, TOKENS, INTERVAL_MS)
  const { url, close } = await partner.listen()
  cleanups.push(close)
  const workers = Array.from({ length: processes }, () =>
    fork('test/support/chat-worker.ts', [redis.url], {
      execArgv: ['--import', 'tsx'],
      env: { ...process.env, NODE_OPTIONS: '' },
    }),
  )
  cleanups.push(() => workers.map(worker => worker.kill('SIGKILL')))
  await Promise.all(workers.map(worker => once(worker, 'message')))
  const chat = async (worker: ChildProcess, count: number): Promise<Chatted> => {
    const what = { url, count, calls: CALLS, tokens: TOKENS, intervalMs: INTERVAL_MS }
    worker.send({ ...what, seed: `worker ${workers.indexOf(worker)}` } satisfies Chat)
    const [chatted] = (await once(worker, 'message')) as [Chatted]
    return chatted
  }
  return { redis, partner, workers, chat }
}

test('eight processes with 5 000 calls of 1 to 4 000 tokens, estimates wrong by up to 3 times: the partner refuses hardly any, and its tokens are used', async () => {
  const { partner, workers, chat } = await start(8)
  const chatted = await Promise.all(workers.map(worker => chat(worker, 625)))
  const from = partner.passed[0].at
  // Without the end, when the calls run out.
  const to = partner.passed[partner.passed.length - 200].at
  const used = partner.between(from + INTERVAL_MS, to) / (((to - from - INTERVAL_MS) * TOKENS) / INTERVAL_MS)
  console.log(`refused ${partner.refused} of 5000 calls, used ${(used * 100).toFixed(1)} % of the tokens`)
  for (const { order, statuses } of chatted) {
    expect(statuses).toEqual({ 200: 625 })
    // First come, first served.
    expect(order).toEqual(order.toSorted((a, b) => a - b))
  }
  expect(partner.refused).toBeLessThanOrEqual(25)
  expect(used).toBeGreaterThanOrEqual(0.95)
}, 240_000)

test('a process that is killed costs the others nothing after an interval', async () => {
  const { partner, workers, chat } = await start(4)
  const all = workers.map(worker => chat(worker, 400).catch(() => undefined))
  await sleep(6000)
  const killedAt = performance.now()
  workers[0].kill('SIGKILL')
  void all[0]
  await Promise.all(all.slice(1))
  const from = killedAt + INTERVAL_MS
  const to = partner.passed[partner.passed.length - 100].at
  const used = partner.between(from, to) / (((to - from) * TOKENS) / INTERVAL_MS)
  console.log(`after the kill: used ${(used * 100).toFixed(1)} % of the tokens in ${((to - from) / 1000).toFixed(1)} s`)
  expect(used).toBeGreaterThanOrEqual(0.95)
}, 120_000)
