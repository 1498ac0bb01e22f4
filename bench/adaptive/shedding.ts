// A real Express process that is offered twice what it can do, with `shed` and without.
import { type Contender, ContenderProcess, type Effort, withProcess } from '../contest/contest.js'
import { figure, type Median, median, type Table } from '../contest/figures.js'
import { type Claim, progress } from '../contest/report.js'

interface Load {
  readonly passed: number
  readonly refused: number
  readonly errors: number
  readonly p99: number
  readonly perSecond: number
}

/** The results of important requests and of the others. */
type Turn = readonly [important: Load, others: Load]

const service = (sheds: boolean): Contender => ({
  name: sheds ? 'with shed' : 'without shed',
  file: 'shed.mjs',
  setup: { sheds },
})
const success = ({ passed, refused, errors }: Load) => (100 * passed) / (passed + refused + errors)

export async function shedding(effort: Effort): Promise<{ table: Table; claims: Claim[] }> {
  const clients = new ContenderProcess({ name: 'the clients', file: 'cannon.mjs', setup: {} })
  const turns = { with: [] as Turn[], without: [] as Turn[] }
  try {
    for (let round = 0; round < effort.rounds; round++) {
      progress(`shed: round ${round + 1}`)
      turns.without.push(await turn(clients, false, effort))
      turns.with.push(await turn(clients, true, effort))
    }
  } finally {
    await clients.end()
  }
  const rows = [
    ...turns.without.map(each => ['without shed', each] as const),
    ...turns.with.map(each => ['with shed', each] as const),
  ]
  const claim = (text: string, bound: Claim['bound'], target: number, measured: Median, unit: string): Claim => ({
    text: `Express offered 2 × its capacity: ${text}`,
    bound,
    target,
    measured,
    unit,
  })
  const important = (kept: readonly Turn[], figure: (load: Load) => number) =>
    median(kept.map(([load]) => figure(load)))
  return {
    table: {
      caption: 'Express, a handler that computes, offered twice its capacity; one request in five is important',
      head: ['service', 'important: success', 'p99 ms', 'the others: success', 'p99 ms', 'done/s'],
      rows: rows.map(([name, [first, others]]) => [
        name,
        `${figure(success(first))} %`,
        figure(first.p99),
        `${figure(success(others))} %`,
        others.passed === 0 ? '–' : figure(others.p99),
        figure(first.perSecond + others.perSecond),
      ]),
    },
    claims: [
      claim('success of important requests with shed', 'at least', 99, important(turns.with, success), '%'),
      claim(
        'their p99 with shed',
        'at most',
        250,
        important(turns.with, ({ p99 }) => p99),
        'ms',
      ),
      claim(
        'their p99 without',
        'at least',
        250,
        important(turns.without, ({ p99 }) => p99),
        'ms',
      ),
    ],
  }
}

/** The capacity of the service is measured each time, because it is lower on a busy machine. */
async function turn(clients: ContenderProcess, sheds: boolean, effort: Effort): Promise<Turn> {
  const capacity = await withProcess(service(false), async child => {
    const order = { port: await child.ask<number>('port'), skipMs: 1500, ms: 3000 }
    return (await clients.ask<Load>('load', { ...order, connections: 20, priorities: [0] })).perSecond
  })
  return withProcess(service(sheds), async child => {
    // Levels close one a second: the first five do not count.
    const order = { port: await child.ask<number>('port'), skipMs: 5000, ms: 20_000 * effort.stretch }
    return clients.ask<Turn>('loads', [
      { ...order, connections: 60, rate: 0.2 * 2 * capacity, priorities: [0] },
      { ...order, connections: 240, rate: 0.8 * 2 * capacity, priorities: [1, 2, 3] },
    ])
  })
}

/** The cost of measuring the load in an idle process. */
export async function measuringCost(effort: Effort): Promise<Claim> {
  progress('processLoad in an idle process')
  const idle = (measures: boolean) => {
    const name = measures ? 'with processLoad' : 'idle'
    return withProcess({ name, file: 'idle.mjs', setup: { measures } }, async child => {
      // What a process does at its start is not counted.
      await child.ask('cpu', { ms: 1000 })
      return child.ask<number>('cpu', { ms: 20_000 * effort.stretch })
    })
  }
  const costs = await Promise.all(
    Array.from({ length: effort.rounds }, async () => {
      const [bare, measuring] = await Promise.all([idle(false), idle(true)])
      return measuring - bare
    }),
  )
  return {
    text: 'processLoad in an idle process: share of a core',
    bound: 'at most',
    target: 0.2,
    measured: median(costs),
    unit: '%',
  }
}
