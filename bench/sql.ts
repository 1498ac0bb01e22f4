// Decisions over PostgreSQL against rate-limiter-flexible: one process and four, one key and many, and with 1 ms added to each answer.
import { PostgresStore } from '../src/stores/sql/postgres-store.js'
import { PostgresServer } from '../test/support/postgres-server.js'
import { TcpProxy } from '../test/support/tcp-proxy.js'
import { type Contender, ContenderProcess, checkQuota, type Effort, type Turns } from './contest/contest.js'
import { figure, ratio, rowsOf, type Table } from './contest/figures.js'
import { type Claim, progress, type Report, runAlone } from './contest/report.js'

interface Run {
  readonly decisions: number
  readonly passed: number
  readonly ms: number
  readonly p50: number
  readonly p99: number
}

interface Setting {
  readonly inFlight: number
  readonly keys: number
  readonly processes: number
  /** Where the contenders find the database. */
  readonly place: { readonly url: string }
}

const MANY = 10_000
const OURS = 'spillway'
const PEER = 'rate-limiter-flexible'
const ONE = 'SELECT 1'

const perSecond = ({ decisions, ms }: Run) => (decisions / ms) * 1000

/** [processes, in flight of each, keys, what is promised as a share of the peer's decisions a second]. */
const OVER_POSTGRES: ReadonlyArray<readonly [processes: number, inFlight: number, keys: number, share: number]> = [
  [1, 1, MANY, 0.75],
  [1, 1, 1, 0.75],
  [1, 16, MANY, 1.5],
  [1, 16, 1, 3.5],
  [1, 64, MANY, 2.8],
  [1, 64, 1, 12],
  [1, 512, MANY, 3.5],
  [1, 512, 1, 35],
  [4, 64, MANY, 2.2],
  [4, 64, 1, 6],
]

export async function sql(effort: Effort): Promise<Report> {
  const server = await PostgresServer.start({ settings: { max_connections: 200 } })
  const proxy = await TcpProxy.start(server.port)
  // Half of it each way would be the same: what counts is the whole trip.
  proxy.delayMs = () => 1
  try {
    const admin = server.pool({ max: 1 })
    await new PostgresStore(admin).createTable()
    await admin.query(
      'CREATE UNLOGGED TABLE peer (key varchar(255) PRIMARY KEY, points integer NOT NULL DEFAULT 0, expire bigint)',
    )
    const url = server.url()
    const far = url.replace(`:${server.port}/`, `:${proxy.port}/`)
    const overPostgres =
      (place: Setting['place']) =>
      (inFlight: number, keys: number, processes: number): Setting => ({ inFlight, keys, processes, place })
    const near = overPostgres({ url })
    progress('over SQL: does every contender limit?')
    await checkQuota([...contenders('PostgreSQL', near(1, 1, 1))])
    const empty = () => admin.query('TRUNCATE spillway, peer')
    const tables: Table[] = []
    const claims: Claim[] = []
    const measureAll = async (
      database: string,
      settings: typeof OVER_POSTGRES,
      settingOf: typeof near,
      before: () => unknown,
    ) => {
      for (const [processes, inFlight, keys, share] of settings) {
        await before()
        const title = `${database}, ${processes} ${processes === 1 ? 'process' : 'processes'}, ${inFlight} in flight, ${keys === 1 ? 'one key' : `${figure(keys)} keys`}`
        progress(`over ${title}`)
        const setting = settingOf(inFlight, keys, processes)
        const all = [...contenders(database, setting), ...(database === 'PostgreSQL' ? [select(setting)] : [])]
        const turns = await measure(all, setting, effort)
        tables.push(table(title, turns))
        claims.push(faster(title, turns, `${OURS}, ${database}`, `${PEER}, ${database}`, share))
      }
    }
    await measureAll('PostgreSQL', OVER_POSTGRES, near, empty)

    progress('over PostgreSQL, 1 ms farther away')
    await empty()
    const setting = overPostgres({ url: far })(1, MANY, 1)
    const turns = await measure([...contenders('PostgreSQL', setting), select(setting)], setting, effort)
    const title = `PostgreSQL 1 ms farther away, 1 in flight, ${figure(MANY)} keys`
    tables.push(table(title, turns))
    claims.push(faster(title, turns, `${OURS}, PostgreSQL`, `${PEER}, PostgreSQL`, 0.85))
    claims.push(faster(title, turns, `${OURS}, PostgreSQL`, ONE, 0.8))

    return {
      title: 'Decisions over PostgreSQL',
      method:
        'Fixed windows, all allowed, asked by `consume` of a limiter. Both tables are unlogged, both pools have 10 connections, and the server keeps its defaults but for fsync. "SELECT 1" is a prepared statement, and limits nothing. The keys of several processes are the same.',
      tables,
      claims,
    }
  } finally {
    await proxy.stop()
    await server.stop()
  }
}

function contenders(database: string, setting: Setting): Contender[] {
  return [`${OURS}, ${database}`, `${PEER}, ${database}`].map(name => contender(name, setting))
}

function select(setting: Setting): Contender {
  return contender(ONE, setting)
}

function contender(name: string, { inFlight, keys, place }: Setting): Contender {
  return { name, file: 'sql.mjs', setup: { contender: name, inFlight, keys, ...place } }
}

/** As `contest`, with several processes of each contender at once. */
async function measure(all: readonly Contender[], { processes }: Setting, effort: Effort): Promise<Turns<Run>> {
  const turns = new Map<string, Run[]>(all.map(({ name }) => [name, []]))
  for (let generation = 0; generation < effort.generations; generation++) {
    const groups = all.map(contender => Array.from({ length: processes }, () => new ContenderProcess(contender)))
    const runOf = (group: readonly ContenderProcess[], ms: number) =>
      Promise.all(group.map(child => child.ask<Run>('run', { ms })))
    try {
      for (const group of groups) {
        await Promise.all(group.map(child => child.ask('fill')))
        await runOf(group, 400)
      }
      for (let round = 0; round < effort.rounds; round++) {
        for (const group of round % 2 === 0 ? groups : groups.toReversed()) {
          const runs = await runOf(group, 800 * effort.stretch)
          const { name } = group[0].contender
          const denied = runs.reduce((sum, { decisions, passed }) => sum + decisions - passed, 0)
          if (denied > 0) throw new Error(`${name}: ${denied} were denied`)
          turns.get(name)!.push({
            decisions: runs.reduce((sum, { decisions }) => sum + decisions, 0),
            passed: 0,
            ms: runs.reduce((sum, { ms }) => sum + ms, 0) / runs.length,
            p50: Math.max(...runs.map(({ p50 }) => p50)),
            p99: Math.max(...runs.map(({ p99 }) => p99)),
          })
        }
      }
    } finally {
      for (const child of groups.flat()) await child.end()
    }
  }
  return turns
}

function table(caption: string, turns: Turns<Run>): Table {
  const peer = [...turns.keys()].find(name => name.startsWith(PEER))!
  return {
    caption: `Over ${caption}`,
    head: ['contender', 'decisions/s', `÷ ${PEER}`, 'p50 ms', 'p99 ms'],
    rows: rowsOf(turns, ({ name, of, against }) => [
      name,
      of(perSecond),
      against(peer, perSecond),
      of(({ p50 }) => p50),
      of(({ p99 }) => p99),
    ]),
  }
}

function faster(title: string, turns: Turns<Run>, name: string, reference: string, target: number): Claim {
  const measured = ratio(turns, name, reference, perSecond)
  progress(`${title}: ${figure(measured.value)} × ${reference}, at least ${figure(target)} promised`)
  return { text: `${title}: decisions/s ÷ ${reference}`, bound: 'at least', target, measured }
}

await runAlone(import.meta, sql)
