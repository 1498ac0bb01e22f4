// Permits in Redis: acquired and released, uncontended and handed from one process to the next, against
// redis-semaphore.
import type { Redis } from 'ioredis'
import { RedisServer } from '../test/support/redis-server.js'
import { type Contender, ContenderProcess, contest, type Effort } from './contest/contest.js'
import { figure, median, medianOf, ratio, single, spread } from './contest/figures.js'
import { readWork } from './contest/redis-meter.js'
import { type Claim, progress, type Report, runAlone } from './contest/report.js'

interface Turn {
  readonly pairs: number
  readonly ms: number
  /** Scripts called for each pair. */
  readonly calls: number
}

/** A turn of many that wait for few permits. */
interface Contention {
  readonly turns: number
  readonly ms: number
  readonly longestMs: number
  readonly roundTripMs: number
  readonly serverMicros: number
}

const PEER = 'redis-semaphore'
const QUEUE = 'queue in the process'
const LEAST = 'least script'
const NAMES = ['spillway', PEER]
/** The usual forms of a take, and what of the plain one's pairs they are to have. */
const FORMS = ['with a timeout', 'a place of concurrencyLimit']
const LEAST_OF_PLAIN = 0.9
/** How many at a time, and what of redis-semaphore's pairs spillway is to have. */
const LANES = [
  [1, 0.95],
  [64, 1],
] as const
/** Many that wait for few permits. */
const CONTENDED = { lanes: 64, permits: 8, holdMs: 2 }
const PROCESSES = 16
const HOLD_MS = 10
/** Names that are each used once, by an object of their own, and how many at a time. */
const NAMES_USED_ONCE = 1000
const NAMES_AT_A_TIME = [1, 16]
/** How many processes take turns at one permit that each gives back at once. */
const TURN_PROCESSES = [4, 16]

const perSecond = ({ pairs, ms }: Turn) => (pairs / ms) * 1000

export async function semaphore(effort: Effort): Promise<Report> {
  const redis = await RedisServer.start()
  const client = redis.client()
  const claims: Claim[] = []
  const rows: string[][] = []
  try {
    for (const [lanes, target] of LANES) {
      progress(`permits in Redis: ${lanes} at a time`)
      const names = [...NAMES, ...FORMS]
      const contenders = names.map(name => contenderOf(name, redis.port, lanes, `pairs-${lanes}-${name}`))
      const ms = 1500 * effort.stretch
      const turns = await contest<Turn>(contenders, effort, {
        warmUp: child => child.ask('pairs', { ms: ms / 2, lanes }),
        turn: async child => {
          const before = await readWork(client)
          const done = await child.ask<{ pairs: number; ms: number }>('pairs', { ms, lanes })
          const after = await readWork(client)
          const calls = ['evalsha', 'eval'].map(command => after.calls(command) - before.calls(command))
          return { ...done, calls: (calls[0] + calls[1]) / done.pairs }
        },
      })
      for (const name of names) {
        rows.push([
          `${name}, ${lanes} at a time`,
          spread(medianOf(turns, name, perSecond)),
          spread(ratio(turns, name, PEER, perSecond)),
          figure(medianOf(turns, name, ({ calls }) => calls).value),
        ])
      }
      const text = `Pairs of acquire and release a second, ${lanes} at a time, against ${PEER}`
      claims.push({ text, bound: 'at least', target, measured: ratio(turns, 'spillway', PEER, perSecond) })
      for (const name of FORMS) {
        const form = `Pairs a second, ${lanes} at a time: ${name}, against acquire without options`
        const measured = ratio(turns, name, 'spillway', perSecond)
        claims.push({ text: form, bound: 'at least', target: LEAST_OF_PLAIN, measured })
      }
    }
    const contended = await contend(redis.port, client, effort)
    const once = await underManyNames(redis.port, client, effort)
    const between = await betweenProcesses(redis.port, client, effort)
    const taken = await takeTurns(redis.port, effort)
    claims.push(...contended.claims, ...once.claims, ...taken.claims)
    return {
      title: 'Permits in Redis',
      method:
        'Each at a time takes a permit of as many and gives it back at once: by acquire without options, with a timeout of 5 s, and as concurrencyLimit does. Then ' +
        `${CONTENDED.lanes} lanes of one process take turns at ${CONTENDED.permits} permits and hold them for ${CONTENDED.holdMs} ms. What can be had is what a ` +
        'queue in the process has, if each turn takes a round trip longer; the round trip is a PING after a pause of as long as a turn, since a ' +
        'server that has slept answers later than one that is asked all the time. The least script keeps its line in the process, and knows no ' +
        `other process and no loss: a semaphore over Redis with this client can hardly do better. Then ${PROCESSES} processes take turns at one permit and hold ` +
        `it for ${HOLD_MS} ms, each turn with an INCR and a DECR that prove that nobody else is inside.`,
      tables: [
        {
          caption: `${NAMES_USED_ONCE} names, each used once, as concurrencyLimit with a key takes a place`,
          head: ['who', 'pairs a second', 'commands a pair', 'time of the server a pair, µs'],
          rows: once.rows,
        },
        {
          caption: 'Turns between processes at one permit',
          head: ['who', 'turns a second', 'commands a turn', 'time of the server a turn, µs'],
          rows: between,
        },
        { caption: 'Uncontended', head: ['who', 'pairs a second', `against ${PEER}`, 'script calls a pair'], rows },
        {
          caption: `${CONTENDED.lanes} lanes, ${CONTENDED.permits} permits held for ${CONTENDED.holdMs} ms`,
          head: [
            'who',
            'turns a second',
            'of what can be had',
            'server time a turn, µs',
            'longest wait, ms',
            'a round trip, ms',
          ],
          rows: contended.rows,
        },
        { caption: `${PROCESSES} processes, one permit`, head: ['', 'ms'], rows: taken.rows },
      ],
      claims,
    }
  } finally {
    await redis.stop()
  }
}

async function contend(port: number, client: Redis, effort: Effort): Promise<{ rows: string[][]; claims: Claim[] }> {
  const { lanes, permits, holdMs } = CONTENDED
  progress(`permits in Redis: ${lanes} lanes, ${permits} permits`)
  const names = [...NAMES, LEAST, QUEUE]
  const ms = 1500 * effort.stretch
  const turns = await contest<Contention>(
    names.map(name => contenderOf(name, port, permits, `contended-${name}`)),
    effort,
    {
      warmUp: child => child.ask('contended', { ms, lanes, holdMs: 1 }),
      turn: async child => {
        const before = await readWork(client)
        const done = await child.ask<Omit<Contention, 'serverMicros'>>('contended', { ms, lanes, holdMs })
        const after = await readWork(client)
        const micros = ['evalsha', 'eval'].map(command => after.micros(command) - before.micros(command))
        return { ...done, serverMicros: (micros[0] + micros[1]) / done.turns }
      },
    },
  )
  const each = (turn: Contention) => (turn.turns / turn.ms) * 1000
  const shareOf = (name: string) => {
    const queued = turns.get(QUEUE)!
    return median(turns.get(name)!.map((turn, i) => each(turn) / (each(queued[i]) / (1 + turn.roundTripMs / holdMs))))
  }
  const serverMicros = (name: string) => medianOf(turns, name, turn => turn.serverMicros)
  const longestMs = (name: string) => medianOf(turns, name, turn => turn.longestMs)
  const rows = names.map(name => [
    name,
    spread(medianOf(turns, name, each)),
    name === QUEUE ? '' : spread(shareOf(name)),
    figure(serverMicros(name).value),
    spread(longestMs(name)),
    spread(medianOf(turns, name, turn => turn.roundTripMs)),
  ])
  const what = `${lanes} lanes on ${permits} permits held for ${holdMs} ms`
  const claims: Claim[] = [
    { text: `${what}: turns, of what can be had`, bound: 'at least', target: 0.88, measured: shareOf('spillway') },
    {
      text: `${what}: server time a turn (50, or that of ${PEER} if it is more)`,
      bound: 'at most',
      target: Math.max(50, serverMicros(PEER).value),
      measured: serverMicros('spillway'),
      unit: 'µs',
    },
    {
      text: `${what}: longest wait of a lane`,
      bound: 'at most',
      target: 40,
      measured: longestMs('spillway'),
      unit: 'ms',
    },
  ]
  return { rows, claims }
}

/** What a pair or a turn costs the server. */
interface Cost {
  readonly count: number
  readonly ms: number
  readonly commands: number
  readonly micros: number
}

const costRow = (turns: ReadonlyMap<string, readonly Cost[]>, name: string, what: string) => {
  const of = (read: (cost: Cost) => number) => medianOf(turns as Map<string, Cost[]>, name, read)
  return [
    `${name}, ${what}`,
    spread(of(({ count, ms }) => (count / ms) * 1000)),
    figure(of(({ commands, count }) => commands / count).value),
    figure(of(({ micros, count }) => micros / count).value),
  ]
}

async function costOf(client: Redis, work: () => Promise<{ count: number; ms: number }>): Promise<Cost> {
  const before = await readWork(client)
  const done = await work()
  const after = await readWork(client)
  return { ...done, commands: after.commands - before.commands, micros: after.cpuUs - before.cpuUs }
}

async function underManyNames(
  port: number,
  client: Redis,
  effort: Effort,
): Promise<{ rows: string[][]; claims: Claim[] }> {
  const rows: string[][] = []
  const claims: Claim[] = []
  for (const lanes of NAMES_AT_A_TIME) {
    progress(`permits in Redis: ${NAMES_USED_ONCE} names, ${lanes} at a time`)
    const turns = await contest<Cost>(
      NAMES.map(name => contenderOf(name, port, 1, `once-${lanes}-${name}`)),
      effort,
      {
        warmUp: child => child.ask('once', { names: NAMES_USED_ONCE, lanes }),
        turn: child =>
          costOf(client, async () => {
            const ms = await child.ask<number>('once', { names: NAMES_USED_ONCE, lanes })
            return { count: NAMES_USED_ONCE, ms }
          }),
      },
    )
    for (const name of NAMES) rows.push(costRow(turns, name, `${lanes} at a time`))
    const commands = medianOf(turns, 'spillway', cost => cost.commands / cost.count)
    claims.push({
      text: `Commands of a pair under a name that is used once, ${lanes} at a time, those of scripts included`,
      bound: 'at most',
      target: 10,
      measured: commands,
    })
  }
  return { rows, claims }
}

async function betweenProcesses(port: number, client: Redis, effort: Effort): Promise<string[][]> {
  const rows: string[][] = []
  const turns = Math.ceil(50 * effort.stretch)
  for (const processes of TURN_PROCESSES) {
    const costs = new Map<string, Cost[]>(NAMES.map(name => [name, []]))
    for (const name of NAMES) {
      progress(`permits in Redis: turns between ${processes} processes, ${name}`)
      const contender = contenderOf(name, port, 1, `between-${processes}-${name}`)
      const children = Array.from({ length: processes }, () => new ContenderProcess(contender))
      const takeAll = () => Promise.all(children.map(child => child.ask<number>('turnsAtOnce', { turns })))
      try {
        await takeAll()
        for (let round = 0; round < effort.rounds; round++) {
          const cost = await costOf(client, async () => {
            const startedAt = performance.now()
            await takeAll()
            return { count: processes * turns, ms: performance.now() - startedAt }
          })
          costs.get(name)!.push(cost)
        }
      } finally {
        for (const child of children) await child.end()
      }
    }
    for (const name of NAMES) rows.push(costRow(costs, name, `${processes} processes`))
  }
  return rows
}

async function takeTurns(port: number, effort: Effort): Promise<{ rows: string[][]; claims: Claim[] }> {
  progress(`permits in Redis: ${PROCESSES} processes, one permit`)
  const contender = contenderOf('spillway', port, 1, 'turns')
  const children = Array.from({ length: PROCESSES }, () => new ContenderProcess(contender))
  try {
    // As the turns find it: with all others awake.
    const roundTrips = await Promise.all(children.map(child => child.ask<number>('roundTrip')))
    const turns = 100 * effort.stretch
    const startedAt = performance.now()
    const together = await Promise.all(children.map(child => child.ask<number>('turns', { turns, holdMs: HOLD_MS })))
    const perTurnMs = (performance.now() - startedAt) / (PROCESSES * turns)
    const roundTripMs = median(roundTrips).value
    const sum = together.reduce((all, count) => all + count, 0)
    return {
      rows: [
        ['a turn', figure(perTurnMs)],
        ['a round trip, all asking at once', figure(roundTripMs)],
      ],
      claims: [
        { text: 'Turns in which two were inside', bound: 'exactly', target: 0, measured: single(sum), unit: 'turns' },
        {
          text: `A turn: ${HOLD_MS} ms and three round trips, and two for INCR and DECR`,
          bound: 'at most',
          target: HOLD_MS + 5 * roundTripMs,
          measured: single(perTurnMs),
          unit: 'ms',
        },
      ],
    }
  } finally {
    for (const child of children) await child.end()
  }
}

function contenderOf(name: string, port: number, permits: number, key: string): Contender {
  return { name, file: 'semaphore.mjs', setup: { contender: name, port, permits, name: key } }
}

await runAlone(import.meta, semaphore)
