// What a process that has just started takes for its first decisions, in memory and on Redis: before anything has been
// compiled, and before Redis knows the scripts of who asks.
import { RedisServer } from '../test/support/redis-server.js'
import { type Contender, type Effort, withProcess } from './contest/contest.js'
import { figure, median } from './contest/figures.js'
import { progress, type Report, runAlone } from './contest/report.js'

const ROUNDS = 15
/** The first one, those after it until a hundred, and until a thousand. */
const COUNTS = [1, 99, 900]
const PLACES: ReadonlyArray<readonly [place: string, names: readonly string[]]> = [
  ['memory', ['spillway', 'spillway fixed-window', 'express-rate-limit', 'rate-limiter-flexible']],
  ['Redis', ['spillway', 'spillway fixed-window', 'rate-limit-redis', 'rate-limiter-flexible']],
]

export async function justStarted(effort: Effort): Promise<Report> {
  const redis = await RedisServer.start()
  const client = redis.client()
  try {
    const tables = []
    for (const [place, names] of PLACES) {
      const port = place === 'Redis' ? redis.port : undefined
      const times = new Map<string, number[][]>(names.map(name => [name, []]))
      // The first round fills the file cache of the system, and does not count.
      for (let round = -1; round < Math.ceil(ROUNDS * effort.stretch); round++) {
        progress(`just started, ${place}: round ${round + 1}`)
        for (const name of names) {
          const contender: Contender = { name, file: 'just-started.mjs', setup: { contender: name, port } }
          await client.flushall()
          await client.script('FLUSH')
          const first = await withProcess(contender, child => child.ask<number[]>('first', { counts: COUNTS }))
          if (round >= 0) times.get(name)?.push(first)
        }
      }
      tables.push({
        caption: `Just started, in ${place}`,
        head: ['who', 'loading, ms', 'the first, ms', 'each until 100, µs', 'each until 1000, µs'],
        rows: [...times].map(([name, rounds]) => {
          const of = (i: number, per: number) => figure(median(rounds.map(times => times[i] / per)).value)
          return [name, of(0, 1), of(1, 1), of(2, COUNTS[1] / 1000), of(3, COUNTS[2] / 1000)]
        }),
      })
    }
    return {
      title: 'A process that has just started',
      method:
        `Each time in a new process, one decision after the other, each of a key of its own; the median of ${ROUNDS}. The connection is there, and the server knows no script. ` +
        'spillway has the algorithm that it has by default, and a fixed window as the peers have; express-rate-limit and rate-limit-redis are asked by their `increment`.',
      tables,
      claims: [],
    }
  } finally {
    client.disconnect()
    await redis.stop()
  }
}

await runAlone(import.meta, justStarted)
