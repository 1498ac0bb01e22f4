import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import type { LoadAnswer, LoadOrder } from '../../test/support/load-worker.js'
import { RedisServer } from '../../test/support/redis-server.js'
import { settles } from '../../test/support/settles.js'

let redis: RedisServer
const workers: ChildProcess[] = []
beforeAll(async () => {
  redis = await RedisServer.start()
  for (let i = 0; i < 2; i++) {
    const worker = fork('test/support/load-worker.ts', [redis.url, '100/10m'], {
      execArgv: ['--import', 'tsx'],
      env: { ...process.env, NODE_OPTIONS: '' },
    })
    workers.push(worker)
    await once(worker, 'message')
  }
}, 60_000)
afterAll(async () => {
  for (const worker of workers) worker.kill('SIGKILL')
  await redis.stop()
})

async function tell(worker: ChildProcess, order: LoadOrder): Promise<LoadAnswer> {
  worker.send(order)
  return (await once(worker, 'message'))[0]
}

test('of two processes that share a limit, the overloaded one admits fewer requests, the other as many as before', async () => {
  const [busy, calm] = workers
  const factorIsOne = async (worker: ChildProcess) => expect((await tell(worker, {})).factor).toBe(1)
  // What a process does at its start is load too.
  for (const worker of workers) await settles(() => factorIsOne(worker), 20_000)
  expect(await tell(busy, { consume: 20 })).toMatchObject({ admitted: 20 })
  expect(await tell(calm, { consume: 20 })).toMatchObject({ admitted: 20 })

  // Forty are counted: more than the overloaded process may admit now, and less than half of what the other may.
  expect(await tell(busy, { busyMs: 4000, consume: 5 })).toEqual({ factor: 0.1, admitted: 0 })
  expect(await tell(calm, { consume: 20 })).toEqual({ factor: 1, admitted: 20 })

  await settles(() => factorIsOne(busy), 30_000)
  expect(await tell(busy, { consume: 20 })).toEqual({ factor: 1, admitted: 20 })
  expect(await tell(calm, { consume: 30 })).toEqual({ factor: 1, admitted: 20 })
  expect(await tell(busy, { consume: 10 })).toEqual({ factor: 1, admitted: 0 })
}, 90_000)
