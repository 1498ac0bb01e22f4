// Decisions a second of the drop-ins for rate-limiter-flexible and koa-ratelimit, against these: in memory and on
// Redis, with 1 and 64 in flight.
import { RedisServer } from '../test/support/redis-server.js'
import { type Contender, checkQuota, contest, type Effort, type Turns } from './contest/contest.js'
import { figure, medianOf, ratio, spread } from './contest/figures.js'
import { readWork } from './contest/redis-meter.js'
import { type Claim, progress, type Report, runAlone } from './contest/report.js'

interface Run {
  readonly decisions: number
  readonly ms: number
  readonly cpuUs: number
}

/** A run, and what a decision cost the server. */
interface Turn extends Run {
  readonly redisCpu: number
}

/** A drop-in and its peer under the same load. */
interface Pairing {
  readonly peer: string
  readonly on: 'memory' | 'Redis'
  readonly inFlight: number
  readonly turns: Turns<Turn>
}

const PEERS = ['rate-limiter-flexible', 'koa-ratelimit']
const TURN_MS = { memory: 250, Redis: 500 }

const perSecond = ({ decisions, ms }: Turn) => (decisions / ms) * 1000
const nameOf = (peer: string) => `spillway/${peer}`

export async function dropInPeers(effort: Effort): Promise<Report> {
  const server = await RedisServer.start()
  const pairings: Pairing[] = []
  try {
    for (const peer of PEERS) {
      for (const on of ['memory', 'Redis'] as const) {
        for (const inFlight of [1, 64]) {
          progress(`the drop-ins: ${peer}, ${on}, ${inFlight} in flight`)
          pairings.push({ peer, on, inFlight, turns: await measure(server, peer, on, inFlight, effort) })
        }
      }
    }
  } finally {
    await server.stop()
  }
  return {
    title: 'The drop-ins for rate-limiter-flexible and koa-ratelimit',
    method:
      'Each drop-in against the package that it replaces, the same calls in a process of its own: `consume`, and the middleware with a bare ' +
      'context. 1000 keys, every second decision refused. The server and the client run on the same machine.',
    tables: [
      {
        caption: 'The drop-ins and their peers',
        head: [
          'peer',
          'on',
          'in flight',
          'drop-in/s',
          'peer/s',
          'drop-in ÷ peer',
          'client CPU µs',
          'of the peer',
          'Redis CPU µs',
          'of the peer',
        ],
        rows: pairings.map(({ peer, on, inFlight, turns }) => {
          const both = (figureOf: (turn: Turn) => number) =>
            [nameOf(peer), peer].map(name => figure(medianOf(turns, name, figureOf).value))
          return [
            peer,
            on,
            String(inFlight),
            ...both(perSecond),
            spread(ratio(turns, nameOf(peer), peer, perSecond)),
            ...both(turn => turn.cpuUs / turn.decisions),
            ...(on === 'Redis' ? both(turn => turn.redisCpu) : ['', '']),
          ]
        }),
      },
    ],
    claims: pairings.map(
      ({ peer, on, inFlight, turns }): Claim => ({
        text: `${nameOf(peer)}, ${on}, ${inFlight} in flight: decisions/s ÷ ${peer}`,
        bound: 'at least',
        target: targetOf(peer, on, inFlight),
        measured: ratio(turns, nameOf(peer), peer, perSecond),
      }),
    ),
  }
}

/**
 * They translate onto our limiters, with all that these promise: what is not in flight together with others pays for
 * that. See docs/decisions/2026-11-29-drop-ins-translate.md.
 */
function targetOf(peer: string, on: Pairing['on'], inFlight: number): number {
  if (peer === 'rate-limiter-flexible' && on === 'memory') return 0.4
  return on === 'Redis' && inFlight === 1 ? 0.75 : 1
}

async function measure(
  server: RedisServer,
  peer: string,
  on: Pairing['on'],
  inFlight: number,
  effort: Effort,
): Promise<Turns<Turn>> {
  const port = on === 'Redis' ? server.port : undefined
  const pair = [true, false].map(
    (ours): Contender => ({
      name: ours ? nameOf(peer) : peer,
      file: 'drop-ins.mjs',
      setup: { peer, ours, port, inFlight },
    }),
  )
  const client = server.client()
  await client.flushall()
  if (inFlight === 1) await checkQuota(pair)
  const turns = await contest<Turn>(pair, effort, {
    warmUp: child => child.ask('run', { ms: 400 }),
    turn: async child => {
      const before = await readWork(client)
      const run = await child.ask<Run>('run', { ms: TURN_MS[on] * effort.stretch })
      const after = await readWork(client)
      return { ...run, redisCpu: (after.cpuUs - before.cpuUs) / run.decisions }
    },
  })
  client.disconnect()
  return turns
}

await runAlone(import.meta, dropInPeers)
