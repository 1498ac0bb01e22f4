// Clients that ask for a hundred times their quota: how often Redis is asked, and how long a refusal takes.
import { RedisServer } from '../test/support/redis-server.js'
import { type Contender, contest, type Effort } from './contest/contest.js'
import { medianOf, rowsOf } from './contest/figures.js'
import { readWork } from './contest/redis-meter.js'
import { type Claim, progress, type Report, runAlone } from './contest/report.js'

interface Run {
  readonly decisions: number
  readonly passed: number
  readonly refusals: number
  readonly ms: number
  readonly asked?: number
  readonly askedForRefusal?: number
  readonly p50: number
  readonly p99: number
}

interface Turn extends Run {
  /** Decisions that reached Redis, and refusals that did. */
  readonly asked: number
  readonly askedForRefusal: number
}

const TIMES = 100
const TIMES_OF_AN_HOUR = 10
const ALGORITHMS = ['fixed-window', 'token-bucket', 'sliding-window', 'sliding-counter']
const RLF = 'rate-limiter-flexible'
const share = (part: number, whole: number) => (100 * part) / whole

/** How much of the traffic reached Redis, and how long a refusal took. */
async function turnsOf(server: RedisServer, windowMs: number, times: number, effort: Effort) {
  const client = server.client()
  const contenders: Contender[] = [
    ...ALGORITHMS.map(algorithm => ({ name: `spillway ${algorithm}`, setup: { contender: 'spillway', algorithm } })),
    { name: RLF, setup: { contender: RLF } },
  ].map(({ name, setup }) => ({ name, file: 'refusals.mjs', setup: { ...setup, windowMs, port: server.port } }))
  return contest<Turn>(
    contenders,
    { ...effort, rounds: Math.ceil(effort.rounds / 2) },
    {
      warmUp: child => child.ask('run', { seconds: 1, times }),
      turn: async child => {
        await client.flushall()
        const before = await readWork(client)
        const run = await child.ask<Run>('run', { seconds: effort.name === 'full' ? 2 : 1, times })
        const after = await readWork(client)
        // A peer asks Redis once a decision, if at all.
        const asked = run.asked ?? after.calls('evalsha') - before.calls('evalsha')
        return { ...run, asked, askedForRefusal: run.askedForRefusal ?? asked - run.passed }
      },
    },
  )
}

const HEAD = ['contender', 'decisions/s', 'allowed %', 'reach Redis, % of decisions', '% of refusals']

function rowsOfTraffic(turns: Awaited<ReturnType<typeof turnsOf>>) {
  return rowsOf(turns, ({ name, of, spreadOf }) => [
    name,
    of(turn => (turn.decisions / turn.ms) * 1000),
    of(turn => share(turn.passed, turn.decisions)),
    of(turn => share(turn.asked, turn.decisions)),
    of(turn => share(turn.askedForRefusal, turn.refusals)),
    spreadOf(turn => turn.p50),
    spreadOf(turn => turn.p99),
  ])
}

export async function refusals(effort: Effort): Promise<Report> {
  progress('refused traffic')
  const server = await RedisServer.start()
  try {
    const turns = await turnsOf(server, 1000, TIMES, effort)
    const turnsOfAnHour = await turnsOf(server, 3_600_000, TIMES_OF_AN_HOUR, effort)
    return {
      title: 'Refused traffic',
      method:
        `Ten clients, quota 100 a second each, of which each asks for ${TIMES} times as much, evenly, one request after another; on ` +
        'Redis, with the deny cache that is on by default; rate-limiter-flexible with `inMemoryBlockOnConsumed`. One decision in a hundred is ' +
        'allowed, and has to reach Redis: what is claimed is the share of the others. The latencies are of all refusals, wherever they came from. ' +
        'Then a quota of 100 an hour, of which each client asks for 1000 a second: a process remembers a denial for a second at most, so that ' +
        'what another process changes counts within a second, and asks Redis again for each key once a second.',
      tables: [
        { caption: `${TIMES} × the quota`, head: [...HEAD, 'p50 µs', 'p99 µs'], rows: rowsOfTraffic(turns) },
        {
          caption: 'Quota 100 an hour, 1000 requests a second',
          head: [...HEAD, 'p50 µs', 'p99 µs'],
          rows: rowsOfTraffic(turnsOfAnHour),
        },
      ],
      claims: ['fixed-window', 'token-bucket', 'sliding-window'].flatMap((algorithm): Claim[] => {
        const name = `spillway ${algorithm}`
        const bound = 'at most'
        const asked = medianOf(turns, name, turn => share(turn.askedForRefusal, turn.refusals))
        const p99 = medianOf(turns, name, turn => turn.p99)
        return [
          { text: `${name}: refusals that reach Redis`, bound, target: 1, measured: asked, unit: '%' },
          { text: `${name}: p99 of a refusal`, bound, target: 20, measured: p99, unit: 'µs' },
        ]
      }),
    }
  } finally {
    await server.stop()
  }
}

await runAlone(import.meta, refusals)
