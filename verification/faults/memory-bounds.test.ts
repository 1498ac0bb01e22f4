import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from '@jest/globals'
import { logLine, TEN_O_CLOCK } from '../../test/operating/cli/log-line.js'
import { spawnSpillway } from '../../test/operating/cli/spawn-spillway.js'
import { Child } from '../../test/support/child.js'
import { TcpProxy } from '../../test/support/tcp-proxy.js'
import { testRedis } from '../../test/support/test-redis.js'
import type { Fares } from './outage-program.js'

const redis = testRedis()

test('spillway replay: a log of 170 MB needs no more memory than its keys and the lines held for sorting', async () => {
  const tellPeak = 'process.on("exit",()=>process.stderr.write("peak "+process.resourceUsage().maxRSS+" kB"))'
  const linesPerBlock = 2000
  const { exitCode, stdout, stderr } = await spawnSpillway(['replay', '-', '--policy', '10/1m', '--json'], {
    // The heap is smaller than a tenth of the log.
    nodeArgs: ['--max-old-space-size=40', '--import', `data:text/javascript,${tellPeak}`],
    with: async ({ stdin }) => {
      for (let i = 0; i < 700; i++) {
        const at = TEN_O_CLOCK + i
        const lines = Array.from({ length: linesPerBlock }, (_, j) =>
          logLine({
            client: `192.0.2.${j % 200}`,
            at: at - (j % 3),
            tail: ' "http://example.com/" "Mozilla/5.0 (X11; Linux x86_64)"',
          }),
        )
        if (!stdin.write(`${lines.join('\n')}\n`)) await new Promise(resolve => stdin.once('drain', resolve))
      }
      stdin.end()
    },
  })
  expect(exitCode).toBe(0)
  // 700 s: a quota at the start, and one more each time the window is over.
  expect(JSON.parse(stdout)).toMatchObject({
    requests: 700 * linesPerBlock,
    skipped: 0,
    keys: 200,
    allowed: 200 * 10 * 12,
    order: { sorted: 'window', late: 0 },
  })
  const peakMB = Number(/^peak (\d+) kB$/.exec(stderr)?.[1]) / 1000
  expect(peakMB).toBeLessThan(200)
}, 60_000)

/** Less than 50 bytes for each decision of the four seconds: any data kept for a decision would take more. */
const HEAP_NOISE = 2_000_000

test.each(['ioredis', 'ioredis 5', 'node-redis'])(
  'the heap of a process with 200 decisions in flight stays flat through 5 s of silence (%s)',
  async client => {
    const proxy = await TcpProxy.start(redis.port)
    const child = await Child.start(
      "import './verification/faults/outage-program.ts'",
      [client, proxy.port],
      ['--expose-gc'],
    )
    await pause(1000)
    const before = await child.ask<Fares>('how')
    proxy.swallow()
    await pause(1000)
    const early = await child.ask<Fares>('how')
    await pause(4000)
    const late = await child.ask<Fares>('how')
    proxy.release()
    child.kill()
    await proxy.stop()
    expect(before.redisAt).toBeGreaterThan(before.aloneAt)
    expect(late.degraded - early.degraded).toBeGreaterThan(1000)
    expect(late.heap - early.heap).toBeLessThan(HEAP_NOISE)
    expect(late.unhandled).toBe(0)
  },
)
