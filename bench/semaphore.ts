// Permits in Redis: acquired and released, uncontended and handed from one process to the next, against redis-semaphore.
import { RedisServer } from '../test/support/redis-server.js'
import type { Claim } from './contest/claim.js'
import { type Contender, ContenderProcess } from './contest/contender.js'
import { contest } from './contest/contest.js'
import type { Effort } from './contest/effort.js'
import { figure, spread } from './contest/figure.js'
import { median, medianOf, ratio } from './contest/median.js'
import { progress } from './contest/progress.js'
import { readWork } from './contest/redis-meter.js'
import { type Report, runAlone } from './contest/report.js'

interface Turn {
  readonly pairs: number
  readonly ms: number
  /** Scripts called for each pair. */
  readonly calls: number
}

const PEER = 'redis-semaphore'
const NAMES = ['spillway', PEER]
const LANES = [1, 64]
const PROCESSES = 16
const HOLD_MS = 10

const perSecond = ({ pairs, ms }: Turn) => (pairs / ms) * 1000

export async function semaphore(effort: Effort): Promise<Report> {
  const redis = await RedisServer.start()
  const client = redis.client()
  const claims: Claim[] = []
  const rows: string[][] = []
  try {
    for (const lanes of LANES) {
      progress(`permits in Redis: ${lanes} at a time`)
      const contenders = NAMES.map(name => contenderOf(name, redis.port, lanes, `pairs-${lanes}-${name}`))
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
      for (const name of NAMES) {
        rows.push([
          `${name}, ${lanes} at a time`,
          spread(medianOf(turns, name, perSecond)),
          spread(ratio(turns, name, PEER, perSecond)),
          figure(medianOf(turns, name, ({ calls }) => calls).value),
        ])
      }
      const text = `Pairs of acquire and release a second, ${lanes} at a time, against ${PEER}`
      claims.push({ text, bound: 'at least', target: 1, measured: ratio(turns, 'spillway', PEER, perSecond) })
    }
    const taken = await takeTurns(redis.port, effort)
    claims.push(...taken.claims)
    return {
      title: 'Permits in Redis',
      method:
        `Each at a time takes a permit of as many and gives it back at once. Then ${PROCESSES} processes take turns at one permit and hold ` +
        `it for ${HOLD_MS} ms, each turn with an INCR and a DECR that prove that nobody else is inside.`,
      tables: [
        { caption: 'Uncontended', head: ['who', 'pairs a second', `against ${PEER}`, 'script calls a pair'], rows },
        { caption: `${PROCESSES} processes, one permit`, head: ['', 'ms'], rows: taken.rows },
      ],
      claims,
    }
  } finally {
    await redis.stop()
  }
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
    const exactly = (value: number) => ({ value, low: value, high: value })
    return {
      rows: [
        ['a turn', figure(perTurnMs)],
        ['a round trip, all asking at once', figure(roundTripMs)],
      ],
      claims: [
        { text: 'Turns in which two were inside', bound: 'exactly', target: 0, measured: exactly(sum), unit: 'turns' },
        {
          text: `A turn: ${HOLD_MS} ms and three round trips, and two for INCR and DECR`,
          bound: 'at most',
          target: HOLD_MS + 5 * roundTripMs,
          measured: exactly(perTurnMs),
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
