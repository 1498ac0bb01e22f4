// What leases must hold: how fast a busy key is decided, and that a fleet of processes uses what the policy allows and no more, counted from all processes'
// own records by the server's clock (one machine has one clock). Run it on a machine that does nothing else.
//
//   node --import tsx bench/leases.ts           all, about six minutes
//   node --import tsx bench/leases.ts speed     one process
//   node --import tsx bench/leases.ts fleets    16 processes, short windows
//   node --import tsx bench/leases.ts minute    16 processes, 10 000/1m
//   node --import tsx bench/leases.ts faults    uneven traffic, kill -9, a Redis that stops, a Redis that loses its data
import { RedisServer } from '../test/support/redis-server.js'
import { prepare } from './contest/prepare.js'
import { decideSpeed } from './leases/speed.js'
import { type Outcome, type TrialOptions, trial, until } from './leases/trial.js'

const PROCESSES = 16
const ALGORITHMS = ['sliding-window', 'token-bucket', 'fixed-window', 'sliding-counter']
const part = process.argv[2] ?? 'all'
const wanted = (name: string) => part === 'all' || part === name

prepare()
const redis = await RedisServer.start()
const client = redis.client()

function row({ policy, used, breach, callsPerDecision, fromLeases, decisions, degraded }: Outcome) {
  return {
    policy,
    'used %': (100 * used).toFixed(1),
    'most above the policy': Number(breach.excess.toFixed(2)),
    'Redis calls per decision': callsPerDecision.toFixed(4),
    'from leases %': (100 * fromLeases).toFixed(1),
    decisions,
    degraded,
  }
}

async function fleet(options: Pick<TrialOptions, 'policy' | 'seconds'> & Partial<TrialOptions>): Promise<Outcome> {
  return trial(redis, client, { processes: PROCESSES, demand: 2, ...options })
}

if (wanted('speed')) console.table(await decideSpeed(redis))

if (wanted('fleets')) {
  console.log('\n16 processes at twice the limit')
  const rows: ReturnType<typeof row>[] = []
  for (const limit of ['100/1s', '1000/1s', '100000/1s']) {
    for (const algorithm of ALGORITHMS) rows.push(row(await fleet({ policy: `${limit} ${algorithm}`, seconds: 10 })))
  }
  console.table(rows)
}

if (wanted('minute')) {
  console.log('\n16 processes at twice 10 000/1m, four windows; the four algorithms at once')
  const outcomes = ALGORITHMS.map(algorithm => fleet({ policy: `10000/1m ${algorithm}`, seconds: 240 }))
  console.table((await Promise.all(outcomes)).map(row))
}

if (wanted('faults')) {
  console.log('\n95 % of the requests at one process of 16')
  const uneven: ReturnType<typeof row>[] = []
  for (const policy of ['1000/1s', '100000/1s', '100000/1s token-bucket']) {
    uneven.push(row(await fleet({ policy, seconds: 8, first: 0.95 })))
  }
  console.table(uneven)

  console.log('\nkill -9 of a process every 200 ms; another one starts in its place')
  const killed: ReturnType<typeof row>[] = []
  for (const policy of ['1000/1s', '100000/1s', '100000/1s token-bucket']) {
    const outcome = await fleet({
      policy,
      seconds: 10,
      // A process takes a while to start, so that fewer than 16 ask.
      demand: 4,
      meanwhile: async (fleet, startOne, untilAt) => {
        while (Date.now() < untilAt - 500) {
          await until(Date.now() + 200)
          fleet.killOldest()
          startOne()
        }
      },
    })
    killed.push(row(outcome))
  }
  console.table(killed)

  console.log(
    '\nRedis stops for 3 s (SIGSTOP); Redis loses its data (FLUSHALL), where the most above the policy is one burst and rate x ttl',
  )
  const faults: ReturnType<typeof row>[] = []
  for (const policy of ['100000/1s', '100000/1s token-bucket']) {
    const stopped = fleet({
      policy,
      seconds: 12,
      meanwhile: async () => {
        await until(Date.now() + 3000)
        redis.pause()
        await until(Date.now() + 3000)
        redis.unpause()
      },
    })
    faults.push(row(await stopped))
    const lost = fleet({
      policy,
      seconds: 8,
      meanwhile: async () => {
        await until(Date.now() + 3000)
        await client.flushall()
      },
    })
    faults.push(row(await lost))
  }
  console.table(faults)
}

await redis.stop()
