// What leases must hold: how fast a busy key is decided, and that fleets of 16 processes use what the policy allows and
// no more, counted from all processes' own records by the server's clock (one machine has one clock). Wants a machine
// that does nothing else: a lease of 100000/1s lasts 20 ms.
//
//   node --import tsx bench/leases.ts                 all
//   node --import tsx bench/leases.ts speed uneven    these parts; each but "minute" takes less than 100 s
import { pathToFileURL } from 'node:url'
import { RedisServer } from '../test/support/redis-server.js'
import type { Effort } from './contest/contest.js'
import { chosenNames, progress, type Report, runAlone } from './contest/report.js'
import { faults } from './leases/faults.js'
import { type Findings, large, minute, small, uneven } from './leases/fleets.js'
import { decideSpeed } from './leases/speed.js'

type Part = (redis: RedisServer, effort: Effort) => Promise<Findings>

const PARTS: Readonly<Record<string, Part>> = {
  speed: (redis, effort) => decideSpeed(redis, effort.name === 'full' ? 4 : 2),
  small,
  large,
  uneven,
  faults,
  minute,
}
/** Takes two minutes. */
const LONGEST = 'minute'
const isAlone = import.meta.url === pathToFileURL(process.argv[1] ?? '').href

export async function leases(effort: Effort): Promise<Report> {
  const chosen =
    (isAlone ? chosenNames(Object.keys(PARTS)) : undefined) ??
    Object.keys(PARTS).filter(name => name !== LONGEST || effort.name === 'full')
  const redis = await RedisServer.start()
  const findings: Findings[] = []
  try {
    for (const name of chosen) {
      progress(`leases: ${name}`)
      findings.push(await PARTS[name](redis, effort))
    }
  } finally {
    await redis.stop()
  }
  return {
    title: 'Leases',
    method:
      'One process: contenders take turns, each time in a fresh process. Fleets: 16 processes ask for twice what the policy allows, for one key, each at moments of its own; "used" and "offered" are what was ' +
      'allowed and asked after the first window, as parts of what the policy allows; "possible" is what one exact limiter would have used of the same requests, ' +
      'and the claims compare "used" with it where it is less than the policy allows. The excess is the most units above the policy in any of its windows (sliding ' +
      'window), spans (token bucket), own windows (fixed window) or by its own estimate (sliding counter); below 0 so many fewer. ' +
      'Script calls are those of Redis, `EVALSHA` and `EVAL`. Where processes are killed, others that were started before take their place.',
    tables: findings.flatMap(({ tables }) => tables),
    claims: findings.flatMap(({ claims }) => claims),
  }
}

await runAlone(import.meta, leases)
