// A real Express process that does ten requests at once in 20 ms each and is offered three times as many, with adaptive
// permits and without.
import { ContenderProcess, type Effort, withProcess } from '../contest/contest.js'
import { figure, median, type Table } from '../contest/figures.js'
import { type Claim, progress } from '../contest/report.js'

interface Load {
  readonly p99: number
  readonly perSecond: number
}

interface Turn {
  readonly adapts: boolean
  readonly capacity: number
  /** p99 with five clients. */
  readonly unloadedMs: number
  readonly load: Load
  readonly limit: number | undefined
}

export async function realPermits(effort: Effort): Promise<{ table: Table; claims: Claim[] }> {
  const clients = new ContenderProcess({ name: 'the clients', file: 'cannon.mjs', setup: {} })
  const turns: Turn[] = []
  try {
    for (let round = 0; round < effort.generations; round++) {
      for (const adapts of [false, true]) {
        progress(`adaptive permits before a real service: ${nameOf(adapts)}`)
        turns.push(await turn(clients, adapts, effort))
      }
    }
  } finally {
    await clients.end()
  }
  const own = turns.filter(({ adapts }) => adapts)
  const share = own.map(({ load, capacity }) => (100 * load.perSecond) / capacity)
  const slower = own.map(({ load, unloadedMs }) => load.p99 / unloadedMs)
  const text = 'adaptivePermits, Express offered 3 × its capacity:'
  const claims: Claim[] = [
    { text: `${text} throughput, of capacity`, bound: 'at least', target: 95, measured: median(share), unit: '%' },
    { text: `${text} p99 ÷ unloaded`, bound: 'at most', target: 3, measured: median(slower) },
  ]
  return {
    table: {
      caption: 'Express, ten at 20 ms, offered three times its capacity',
      head: ['permits', 'capacity/s', 'done/s', 'unloaded p99 ms', 'p99 ms', 'limit at the end'],
      rows: turns.map(({ adapts, capacity, unloadedMs, load, limit }) => [
        nameOf(adapts),
        figure(capacity),
        figure(load.perSecond),
        figure(unloadedMs),
        figure(load.p99),
        limit === undefined ? '–' : String(limit),
      ]),
    },
    claims,
  }
}

function nameOf(adapts: boolean): string {
  return adapts ? 'adaptivePermits' : 'none'
}

async function turn(clients: ContenderProcess, adapts: boolean, effort: Effort): Promise<Turn> {
  const ask = (order: object) => clients.ask<Load>('load', { skipMs: 1500, ms: 3000, priorities: [0], ...order })
  const service = (adapts: boolean) => ({ name: nameOf(adapts), file: 'permits.mjs', setup: { adapts } })
  const { perSecond: capacity } = await withProcess(service(false), async child =>
    ask({ port: await child.ask('port'), connections: 20 }),
  )
  return withProcess(service(adapts), async child => {
    const port = await child.ask<number>('port')
    const { p99: unloadedMs } = await ask({ port, cannons: 5, connections: 5 })
    const ms = 20_000 * effort.stretch
    // Many small senders, so that requests come evenly.
    const load = await ask({ port, cannons: 100, connections: 300, rate: 3 * capacity, skipMs: 10_000, ms })
    return { adapts, capacity, unloadedMs, load, limit: await child.ask('limit') }
  })
}
