import { spawn } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { expect, test } from '@jest/globals'
import { Lateness } from './lateness.js'
import { testRedis } from './test-redis.js'

const redis = testRedis()

/** Computes for so long, by the time that this thread has had a processor. */
function compute(ms: number): void {
  const { user, system } = process.cpuUsage()
  const until = user + system + ms * 1000
  for (;;) {
    const now = process.cpuUsage()
    if (now.user + now.system >= until) return
  }
}

test('what this process computes is no lateness', async () => {
  const late = await Lateness.of()
  const startedAt = performance.now()
  compute(300)
  const tookMs = performance.now() - startedAt
  // The rest is what it waited for a processor around that time.
  expect(tookMs - (await late.stop())).toBeGreaterThan(200)
})

test('what a script computes on the server is no lateness', async () => {
  const client = redis.client()
  const computedMs = async () => {
    const used = (await client.info('cpu')).matchAll(/^used_cpu_\w+_main_thread:(.+)$/gm)
    return [...used].reduce((sum, [, seconds]) => sum + 1000 * Number(seconds), 0)
  }
  const before = await computedMs()
  const late = await Lateness.of(redis)
  const startedAt = performance.now()
  await client.eval('for i = 1, 1e8 do end', 0)
  const tookMs = performance.now() - startedAt
  const lateMs = await late.stop()
  const scriptMs = (await computedMs()) - before
  expect(scriptMs).toBeGreaterThan(50)
  expect(tookMs - lateMs).toBeGreaterThan(scriptMs / 2)
})

test('what other processes keep this one from computing is lateness', async () => {
  const others = Array.from({ length: 2 * availableParallelism() }, () =>
    spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }),
  )
  try {
    const late = await Lateness.of()
    const startedAt = performance.now()
    compute(300)
    const tookMs = performance.now() - startedAt
    // All of the time beyond what it computed.
    expect(await late.stop()).toBeGreaterThan((tookMs - 300) * 0.8)
    expect(tookMs).toBeGreaterThan(450)
  } finally {
    for (const other of others) other.kill('SIGKILL')
  }
})
