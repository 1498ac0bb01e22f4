// Decisions over PostgreSQL and SQLite against rate-limiter-flexible: one process and four, one key and many,
// PostgreSQL also with 1 ms added to each answer.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PostgresStore } from '../src/sql/postgres-store.js'
import { nodeWithSqlite } from '../test/runtimes/runtimes.js'
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
  /** As the title says it. */
  readonly database: string
  readonly inFlight: number
  readonly keys: number
  readonly processes: number
  /** Where the contenders find the database: an address, or the path of a file. */
  readonly url: string
}

const MANY = 10_000
const OURS = 'spillway'
const PEER = 'rate-limiter-flexible'
const ONE = 'SELECT 1'
const POSTGRES = 'PostgreSQL'
const SQLITE = 'SQLite (journal_mode WAL, synchronous NORMAL)'
const OWN = "spillway, SQLite of Node's own"

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

const OVER_SQLITE: typeof OVER_POSTGRES = [
  [1, 1, MANY, 1.3],
  [1, 1, 1, 1.3],
  [1, 64, MANY, 2.5],
  [1, 64, 1, 3],
  [4, 1, MANY, 1],
  [4, 16, MANY, 1],
  [4, 64, MANY, 1],
  [4, 64, 1, 1],
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
    progress('over PostgreSQL: does every contender limit?')
    await checkQuota(contenders({ database: POSTGRES, url, processes: 1, inFlight: 1, keys: 1 }))
    const tables: Table[] = []
    const claims: Claim[] = []
    const compare = async (setting: Setting, ahead: readonly (readonly [reference: string, share: number])[]) => {
      progress(`over ${titleOf(setting)}`)
      const turns = await measure(setting, effort)
      tables.push(table(setting, turns))
      for (const [reference, share] of ahead) claims.push(faster(setting, turns, reference, share))
      return turns
    }
    for (const [processes, inFlight, keys, share] of OVER_POSTGRES) {
      await admin.query('TRUNCATE spillway, peer')
      await compare({ database: POSTGRES, url, processes, inFlight, keys }, [[PEER, share]])
    }
    await admin.query('TRUNCATE spillway, peer')
    const distant = { database: `${POSTGRES} 1 ms farther away`, url: far, processes: 1, inFlight: 1, keys: MANY }
    await compare(distant, [
      [PEER, 0.85],
      [ONE, 0.8],
    ])

    for (const [processes, inFlight, keys, share] of OVER_SQLITE) {
      const folder = mkdtempSync(join(tmpdir(), 'spillway-bench-'))
      try {
        const setting = { database: SQLITE, url: join(folder, 'limits.db'), processes, inFlight, keys }
        const turns = await compare(setting, [[PEER, share]])
        if (processes > 1) claims.push(steadier(setting, turns))
      } finally {
        rmSync(folder, { recursive: true })
      }
    }

    return {
      title: 'Decisions over PostgreSQL and SQLite',
      method:
        'Fixed windows, which the claims are about, as the peer has no others; beside them the default, a sliding window. All allowed, asked by `consume` of a limiter. Of PostgreSQL both tables are unlogged, both pools have 10 connections, and the server keeps its defaults but for fsync. "SELECT 1" is a prepared statement, and limits nothing. Of SQLite both files are opened by better-sqlite3, in WAL mode, with synchronous = NORMAL. The keys of several processes are the same.',
      tables,
      claims,
    }
  } finally {
    await proxy.stop()
    await server.stop()
  }
}

function titleOf(setting: Setting): string {
  const { database, processes, inFlight, keys } = setting
  return `${database}, ${processes} ${processes === 1 ? 'process' : 'processes'}, ${inFlight} in flight, ${keys === 1 ? 'one key' : `${figure(keys)} keys`}`
}

function contenders(setting: Setting): Contender[] {
  const library = libraryOf(setting)
  const names = [`${OURS}, ${library}`, `${OURS}, sliding-window, ${library}`, `${PEER}, ${library}`]
  if (library === 'SQLite') names.push(OWN)
  return names.map(name => contender(name, setting))
}

/** What the contenders' names end in. */
const libraryOf = ({ database }: Setting) => (database.startsWith(POSTGRES) ? POSTGRES : 'SQLite')

function contender(name: string, setting: Setting): Contender {
  const { inFlight, keys, url } = setting
  const node = libraryOf(setting) === 'SQLite' ? nodeWithSqlite() : undefined
  return { name, file: 'sql.mjs', setup: { contender: name, inFlight, keys, url }, node }
}

/** As `contest`, with several processes of each contender at once. */
async function measure(setting: Setting, effort: Effort): Promise<Turns<Run>> {
  const { processes } = setting
  const all = contenders(setting)
  if (libraryOf(setting) === POSTGRES) all.push(contender(ONE, setting))
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

function table(setting: Setting, turns: Turns<Run>): Table {
  const peer = `${PEER}, ${libraryOf(setting)}`
  return {
    caption: `Over ${titleOf(setting)}`,
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

function faster(setting: Setting, turns: Turns<Run>, reference: string, target: number): Claim {
  const library = libraryOf(setting)
  const other = reference === PEER ? `${PEER}, ${library}` : reference
  const measured = ratio(turns, `${OURS}, ${library}`, other, perSecond)
  progress(`${figure(measured.value)} × ${reference}, at least ${figure(target)} promised`)
  return { text: `${titleOf(setting)}: decisions/s ÷ ${reference}`, bound: 'at least', target, measured }
}

function steadier(setting: Setting, turns: Turns<Run>): Claim {
  const library = libraryOf(setting)
  const measured = ratio(turns, `${OURS}, ${library}`, `${PEER}, ${library}`, ({ p99 }) => p99)
  progress(`p99 ${figure(measured.value)} × ${PEER}, at most 1 promised`)
  return { text: `${titleOf(setting)}: p99 ÷ ${PEER}`, bound: 'at most', target: 1, measured }
}

await runAlone(import.meta, sql)
