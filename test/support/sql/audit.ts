import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from '@jest/globals'
import type { Pool } from 'pg'
import type { Limit } from '../../../src/limiter/core/limit.js'
import type { Store } from '../../../src/limiter/store.js'
import { Child } from '../child.js'
import { randomFrom } from '../random.js'
import { AUDITED, DEADLINE_MS, LOOPS, NEW_LIMIT } from './audited.js'

export interface AuditOptions {
  readonly processes: number
  readonly seconds: number
  /** Processes are stopped for a while, and killed. */
  readonly chaos: boolean
  /** Lines of a program that make `store`, the store of one process. */
  readonly store: string
}

/** For `AuditOptions.store`. */
export function postgresStore(url: string, options: object = {}): string {
  return `import { Pool } from 'pg'
import { PostgresStore } from './src/sql/postgres-store.ts'
const store = new PostgresStore(new Pool({ connectionString: '${url}', max: 1 }), ${JSON.stringify(options)})`
}

/** For `AuditOptions.store`. */
export function sqliteStore(file: string): string {
  return `import { SqliteStore } from './src/sql/sqlite-store.ts'
const store = new SqliteStore('${file}')`
}

/** How often statements of a database waited for each other in a circle. */
export async function deadlocksOf(pool: Pool): Promise<number> {
  const { rows } = await pool.query(
    'SELECT deadlocks::int AS count FROM pg_stat_database WHERE datname = current_database()',
  )
  return rows[0].count
}

/** One unit that a process was granted under one limit. */
interface Grant {
  readonly key: string
  /** The decision's moment, by the store's clock. */
  readonly at: number
  readonly resetsAt: number
}

/** What the processes wrote down. */
interface Findings {
  /** By policy and limit. */
  readonly grants: ReadonlyMap<string, readonly Grant[]>
  readonly failures: readonly string[]
  readonly stops: number
  readonly kills: number
}

/**
 * Has processes decide over one store, and fails unless all that they were granted is within the policies, and in the
 * store.
 */
export async function audit(options: AuditOptions, store: Store): Promise<Findings> {
  const folder = await mkdtemp(join(tmpdir(), 'spillway-audit-'))
  try {
    const findings = await observe(options, folder)
    expect(findings.failures).toEqual([])
    expectWithinPolicies(findings)
    await expectKept(findings, store)
    return findings
  } finally {
    await rm(folder, { recursive: true })
  }
}

async function observe({ processes, seconds, chaos, store }: AuditOptions, folder: string): Promise<Findings> {
  const program = `import { auditWorker } from './test/support/sql/audit-worker.ts'
${store}
auditWorker(store, process.argv[2])`
  const files: string[] = []
  const start = async () => {
    const file = join(folder, `process-${files.length}`)
    files.push(file)
    // Node 22 warns of its SQLite.
    return Child.start(program, [file], ['--disable-warning=ExperimentalWarning'])
  }
  const workers = await Promise.all(Array.from({ length: processes }, start))
  let [stops, kills] = [0, 0]
  const end = performance.now() + seconds * 1000
  try {
    const random = randomFrom('audit')
    while (chaos && performance.now() < end) {
      const n = random.integer(0, processes - 1)
      if (stops % 6 === 5 && kills < stops / 6) {
        workers[n].kill()
        kills++
        workers[n] = await start()
      } else {
        workers[n].kill('SIGSTOP')
        stops++
        await sleep(random.integer(50, 450))
        workers[n].kill('SIGCONT')
      }
      await sleep(random.integer(300, 800))
    }
    await sleep(Math.max(0, end - performance.now()))
    await Promise.all(workers.map(finish))
  } finally {
    for (const worker of workers) worker.kill()
  }
  const grants = new Map<string, Grant[]>()
  const failures: string[] = []
  for (const file of files) {
    // The last line of a process that was killed may be half written.
    for (const line of (await readFile(file, 'utf8')).split('\n').slice(0, -1)) {
      const [name, limit, key, at, resetsAt] = line.split(' ')
      if (name === '!') failures.push(line)
      else {
        const id = `${name} ${limit}`
        const list = grants.get(id) ?? []
        grants.set(id, list)
        list.push({ key, at: Number(at), resetsAt: Number(resetsAt) })
      }
    }
  }
  for (const list of grants.values()) list.sort((a, b) => a.at - b.at)
  return { grants, failures, stops, kills }
}

async function finish(worker: Child): Promise<void> {
  worker.process.send('stop')
  expect(await Promise.race([worker.ended, sleep(2 * DEADLINE_MS, 'it does not end', { ref: false })])).toBe(0)
}

/** Never more than a policy allows, in any span of the store's clock. */
function expectWithinPolicies({ grants }: Findings): void {
  for (const [name, limits] of Object.entries(AUDITED)) {
    for (const [i, limit] of limits.entries()) {
      const own = grants.get(`${name} ${i}`) ?? []
      expect(own.length).toBeGreaterThanOrEqual(limits[0].quota / 2)
      // How much too much, in any span.
      expect([name, i, Math.max(0, mostOver(limit, own))]).toEqual([name, i, 0])
    }
  }
}

function mostOver({ algorithm, quota, windowMs, burst }: Limit, grants: readonly Grant[]): number {
  if (algorithm === 'sliding-window') {
    return Math.max(...grants.map(({ at }, i) => i + 1 - grants.findIndex(first => first.at > at - windowMs) - quota))
  }
  if (algorithm === 'fixed-window') {
    const windows = new Map<number, number>()
    for (const { resetsAt } of grants) windows.set(resetsAt, (windows.get(resetsAt) ?? 0) + 1)
    return Math.max(...windows.values()) - quota
  }
  // A bucket that each grant takes from, and that is full at first: how far it would be overdrawn, in unit x ms.
  let [level, last, over] = [burst * windowMs, grants[0].at, 0]
  for (const { at } of grants) {
    level = Math.min(burst * windowMs, level + (at - last) * quota) - windowMs
    last = at
    over = Math.max(over, -level)
  }
  return over
}

/**
 * Every unit that was granted is in the store, and no other but those of decisions whose process was killed before it
 * could write them down.
 */
async function expectKept({ grants, kills }: Findings, store: Store): Promise<void> {
  const told = new Map<string, number>()
  const note = (limiter: string, key: string) => told.set(`${limiter} ${key}`, (told.get(`${limiter} ${key}`) ?? 0) + 1)
  for (const [id, list] of grants) {
    const [limiter] = id.split(' ')
    if (limiter === 'new' || limiter === 'group' || id === 'three 2') for (const { key } of list) note(limiter, key)
  }
  let untold = 0
  const lost: string[] = []
  await Promise.all(
    [...told].map(async ([id, units]) => {
      const [limiter, key] = id.split(' ')
      const limit = limiter === 'three' ? AUDITED.three[2] : NEW_LIMIT
      const [{ remaining }] = await store.peek([{ key, limiter, limit }], 0)
      const kept = limit.quota - remaining
      if (kept < units || units > limit.quota) lost.push(`${id}: ${units} granted, ${kept} kept`)
      untold += kept - units
    }),
  )
  expect(lost).toEqual([])
  // Each may have spent from three rows.
  const inFlight = LOOPS * Object.keys(AUDITED).length + 2
  expect(untold).toBeLessThanOrEqual(kills * 3 * inFlight)
}
