// What leases must hold: how fast a busy key is decided, and that fleets of 16 processes use what the policy allows and no more, counted from all processes' own
// records by the server's clock (one machine has one clock). Wants a machine that does nothing else: a lease of 100000/1s lasts 20 ms.
import { RedisServer } from '../test/support/redis-server.js'
import type { Effort } from './contest/effort.js'
import { progress } from './contest/progress.js'
import { type Report, runAlone } from './contest/report.js'
import { faults } from './leases/faults.js'
import { minute, seconds } from './leases/fleets.js'
import { decideSpeed } from './leases/speed.js'

export async function leases(effort: Effort): Promise<Report> {
  const redis = await RedisServer.start()
  const another = await RedisServer.start()
  try {
    progress('leases: one process')
    const speed = await decideSpeed(redis, effort.name === 'full' ? 4 : 2)
    // Two windows of a minute, in which little is asked: the others run meanwhile, over another server.
    const minutes = effort.name === 'full' ? minute(another) : undefined
    const short = await seconds(redis)
    const broken = await faults(redis)
    progress('leases: the end of the minutes')
    const long = await minutes
    return {
      title: 'Leases',
      method:
        'One process: contenders take turns, each time in a fresh process. Fleets: 16 processes ask for twice what the policy allows, for one key; "used" and "offered" are what was ' +
        'allowed and asked after the first window, as parts of what the policy allows. The excess is the most units above the policy in any of its windows (sliding ' +
        'window), spans (token bucket), own windows (fixed window) or by its own estimate (sliding counter); below 0 so many fewer. ' +
        'Script calls are those of Redis, `EVALSHA` and `EVAL`. Where processes are killed, others that were started before take their place.',
      tables: [speed.table, ...(long?.tables ?? []), ...short.tables, ...broken.tables],
      claims: [...speed.claims, ...(long?.claims ?? []), ...short.claims, ...broken.claims],
    }
  } finally {
    await Promise.all([redis.stop(), another.stop()])
  }
}

await runAlone(import.meta, leases)
