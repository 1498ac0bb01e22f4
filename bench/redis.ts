// Decisions on Redis with 1, 64 and 512 in flight: how many a second, how long each takes, and what they cost the
// server.
import { RedisServer } from '../test/support/redis-server.js'
import { type Contender, checkQuota, contest, type Effort, type Turns } from './contest/contest.js'
import { figure, ratio, rowsOf, type Table } from './contest/figures.js'
import { readWork } from './contest/redis-meter.js'
import { type Claim, progress, type Report, runAlone } from './contest/report.js'

interface Run {
  readonly decisions: number
  readonly passed: number
  readonly ms: number
  readonly p50: number
  readonly p99: number
  readonly cpuUs: number
}

/** A run, and what it cost the server, for each decision. */
interface Turn extends Run {
  readonly redisCpu: number
  readonly bytes: number
  readonly commands: number
  /** What travelled: scripts, or single commands. */
  readonly calls: number
}

const KEYS = 10_000
const INCR = 'bare INCR'
const RLF = 'rate-limiter-flexible'
const RLR = 'rate-limit-redis'
const HAND = 'INCR and PEXPIRE by hand'
const INCREX = 'INCREX by a script'
const FIXED = 'spillway fixed-window'
const TOKEN = 'spillway token-bucket'
const LOG = 'spillway sliding-window'
const LEAST = 'our arguments, no work'
const THREE = 'spillway three limits'
const SETTLED = 'spillway settled'
/** Whose state has the same size however much was spent. */
const CONSTANT = [FIXED, TOKEN, 'spillway leaky-bucket', 'spillway sliding-counter']
/** What share of a peer's decisions each makes that counts fixed windows, and decides as one at a time. */
const ALONE: ReadonlyArray<readonly [name: string, share: number]> = [
  [FIXED, 0.92],
  [TOKEN, 0.86],
  [LOG, 0.86],
]
/** Of the contest of those few: short turns, so that a pair of them stands close together. */
const ALONE_MS = 250
const ALONE_ROUNDS = 24

const perSecond = ({ decisions, ms }: Turn) => (decisions / ms) * 1000
const redisCpu = (turn: Turn) => turn.redisCpu
const clientCpu = ({ cpuUs, decisions }: Turn) => cpuUs / decisions

export async function redis(effort: Effort): Promise<Report> {
  const server = await RedisServer.start()
  try {
    progress('on Redis: does every contender limit?')
    const client = server.client()
    await checkQuota(contenders(server, 1), () => client.flushall())
    client.disconnect()
    const one = await measure(server, 1, effort)
    const alone = await measureAlone(server, effort)
    const some = await measure(server, 64, effort)
    const many = await measure(server, 512, effort)
    return {
      title: 'Decisions on Redis',
      method:
        `One process, one connection, ${figure(KEYS)} keys in an order without pattern, all allowed. "bare INCR" is \`incr\` of ioredis, without ` +
        'auto-pipelining, and limits nothing. By hand: INCR and PEXPIRE NX in a MULTI, and a script that does what the command INCREX of newer ' +
        'servers does, which none of ours is. Three limits: sliding windows of a second, a minute and ten. Settled: each decision of two units is settled to one when it is ' +
        'answered, which counts as one. "our arguments, no work" limits nothing: a script that returns 1, with the arguments of a fixed window, is the ' +
        'least that any decision of ours can take. rate-limit-redis is asked by its `increment`, the limiters by `consume`. The server and the ' +
        'client run on the same machine. Redis CPU, bytes and commands are what INFO counted during the turn, divided by the ' +
        'decisions; commands include those within scripts, calls are what the client sent.',
      tables: [table(1, one), aloneTable(alone), table(64, some), table(512, many)],
      claims: claims(alone, some, many),
    }
  } finally {
    await server.stop()
  }
}

function contenders(server: RedisServer, inFlight: number): Contender[] {
  const one = (name: string, contender: string, algorithm?: string): Contender => ({
    name,
    file: 'redis.mjs',
    setup: { contender, algorithm, port: server.port, inFlight, keys: KEYS },
  })
  return [
    one(INCR, INCR),
    ...['fixed-window', 'token-bucket', 'leaky-bucket', 'sliding-window', 'sliding-counter'].map(algorithm =>
      one(`spillway ${algorithm}`, 'spillway', algorithm),
    ),
    ...[THREE, SETTLED, HAND, INCREX, RLF, RLR].map(name => one(name, name)),
  ]
}

function measure(server: RedisServer, inFlight: number, effort: Effort): Promise<Turns<Turn>> {
  progress(`on Redis: ${inFlight} in flight`)
  return measured(server, contenders(server, inFlight), effort, 800)
}

/** A lone decision beside the quickest peer's, and beside the least that it can take. */
function measureAlone(server: RedisServer, effort: Effort): Promise<Turns<Turn>> {
  progress('on Redis: one at a time, against the quickest peer')
  const all = contenders(server, 1)
  const names = [RLR, ...ALONE.map(([name]) => name)]
  const least: Contender = {
    name: LEAST,
    file: 'redis.mjs',
    setup: { contender: LEAST, port: server.port, inFlight: 1, keys: KEYS },
  }
  const few = [least, ...names.map(name => all.find(contender => contender.name === name)!)]
  const rounds = Math.ceil(ALONE_ROUNDS * effort.stretch)
  return measured(server, few, { ...effort, rounds }, ALONE_MS)
}

async function measured(
  server: RedisServer,
  all: readonly Contender[],
  effort: Effort,
  turnMs: number,
): Promise<Turns<Turn>> {
  const client = server.client()
  await client.flushall()
  const turns = await contest<Turn>(all, effort, {
    warmUp: async child => {
      await child.ask('fill')
      await child.ask('run', { ms: 400 })
    },
    turn: async child => {
      const before = await readWork(client)
      const run = await child.ask<Run>('run', { ms: turnMs * effort.stretch })
      const after = await readWork(client)
      if (run.passed !== run.decisions)
        throw new Error(`${child.contender.name}: ${run.decisions - run.passed} were denied`)
      const sent = child.contender.name === INCR ? 'incr' : 'evalsha'
      return {
        ...run,
        redisCpu: (after.cpuUs - before.cpuUs) / run.decisions,
        bytes: (after.bytes - before.bytes) / run.decisions,
        commands: (after.commands - before.commands) / run.decisions,
        calls: (after.calls(sent) - before.calls(sent)) / run.decisions,
      }
    },
  })
  client.disconnect()
  return turns
}

function table(inFlight: number, turns: Turns<Turn>): Table {
  return {
    caption: `On Redis, ${inFlight} in flight`,
    head: [
      'contender',
      'decisions/s',
      `÷ ${INCR}`,
      `÷ ${RLF}`,
      'p50 ms',
      'p99 ms',
      'Redis CPU µs',
      `÷ ${INCR}`,
      'client CPU µs',
      'bytes',
      'commands',
      'calls',
    ],
    rows: rowsOf(turns, ({ name, of, against }) => [
      name,
      of(perSecond),
      against(INCR, perSecond),
      against(RLF, perSecond),
      of(turn => turn.p50),
      of(turn => turn.p99),
      of(redisCpu),
      against(INCR, redisCpu),
      of(clientCpu),
      of(turn => turn.bytes),
      of(turn => turn.commands),
      of(turn => turn.calls),
    ]),
  }
}

function aloneTable(turns: Turns<Turn>): Table {
  return {
    caption: `On Redis, one at a time, against ${RLR}`,
    head: ['contender', 'decisions/s', `÷ ${RLR}`, 'p50 ms', 'Redis CPU µs', `÷ ${RLR}`, 'client CPU µs', `÷ ${RLR}`],
    rows: rowsOf(turns, ({ name, of, against }) => [
      name,
      of(perSecond),
      against(RLR, perSecond),
      of(turn => turn.p50),
      of(redisCpu),
      against(RLR, redisCpu),
      of(clientCpu),
      against(RLR, clientCpu),
    ]),
  }
}

function claims(one: Turns<Turn>, some: Turns<Turn>, many: Turns<Turn>): Claim[] {
  const faster = (turns: Turns<Turn>, name: string, reference: string, target: number, inFlight: number): Claim => ({
    text: `${name}, ${inFlight} in flight: decisions/s ÷ ${reference}`,
    bound: 'at least',
    target,
    measured: ratio(turns, name, reference, perSecond),
  })
  const cheaper = (name: string, target: number): Claim => ({
    text: `${name}, 512 in flight: Redis CPU a decision ÷ ${INCR}`,
    bound: 'at most',
    target,
    measured: ratio(many, name, INCR, redisCpu),
  })
  return [
    // Lua that is plain asks for the lifetime of each key: docs/decisions/2026-11-29-lua-is-lua.md.
    ...CONSTANT.map(name => faster(many, name, INCR, 2, 512)),
    faster(many, LOG, INCR, 1.5, 512),
    faster(many, FIXED, RLF, 3, 512),
    cheaper(FIXED, 0.6),
    cheaper(TOKEN, 1.5),
    cheaper(LOG, 1.5),
    ...CONSTANT.map(name => faster(some, name, INCR, 1.2, 64)),
    faster(some, LOG, INCR, 1, 64),
    ...ALONE.map(([name, share]) => faster(one, name, RLR, share, 1)),
    ...ALONE.map(
      ([name, share]): Claim => ({
        text: `${name}, 1 in flight: decisions for the Redis CPU of one of ${RLR}`,
        bound: 'at least',
        target: share,
        measured: ratio(one, name, RLR, turn => 1 / turn.redisCpu),
      }),
    ),
  ]
}

await runAlone(import.meta, redis)
