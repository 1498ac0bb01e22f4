// A minute without Redis: how the heap, the decisions and the return fare, with 200 decisions in flight in each of
// three processes, each with another client as its users make it.
//
//   node --import tsx bench/outage.ts        two outages of 60 s
//   node --import tsx bench/outage.ts 10     of 10 s
import { setTimeout as pause } from 'node:timers/promises'
import { endure, sceneAt } from '../test/support/load/trial.js'
import { Load, type Report } from '../test/support/load.js'
import { RedisServer } from '../test/support/redis-server.js'

const SECONDS = Number(process.argv[2] ?? 60)
const SAMPLES = 6

/** What is done to the server, and undone. */
const OUTAGES: Readonly<
  Record<string, readonly [begin: (redis: RedisServer) => unknown, end: (redis: RedisServer) => unknown]>
> = {
  'hangs (SIGSTOP)': [redis => redis.pause(), redis => redis.unpause()],
  'is dead (SIGKILL)': [redis => redis.kill(), redis => redis.restart()],
}

for (const [name, [begin, end]] of Object.entries(OUTAGES)) {
  const [redis, load] = await Promise.all([RedisServer.start(), Load.start()])
  const heaps: number[][] = []
  const scene = sceneAt(
    { kind: 'single', ports: [redis.port] },
    { quota: 1_000_000_000, share: 1_000_000_000, sameKeys: true },
  )
  const { reports, back } = await endure(load, scene, async () => {
    await begin(redis)
    for (let i = 0; i <= SAMPLES; i++) {
      await pause(i === 0 ? 1000 : ((SECONDS - 1) / SAMPLES) * 1000)
      heaps.push(await load.heaps())
    }
    await end(redis)
  })
  load.stop()
  await redis.stop()

  console.log(`\nRedis ${name} for ${SECONDS} s`)
  console.table(
    reports.map((report, i) =>
      row(
        report,
        heaps.map(sample => sample[i]),
        back[report.client],
      ),
    ),
  )
}

/** Collecting the heap stops a process, so the slowest decision is a little slower here than in the tests. */
function row({ client, decisions, degraded, slowestMs, errors, unhandled }: Report, heaps: number[], backMs: number) {
  return {
    client,
    decisions,
    degraded,
    'heap MB, after 1 s and then evenly': heaps.map(bytes => (bytes / 1e6).toFixed(1)).join(' '),
    'slowest ms': slowestMs.toFixed(0),
    'back after ms': backMs.toFixed(0),
    unhandled: unhandled.length,
    errors: errors.length,
  }
}
