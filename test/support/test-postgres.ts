import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { closeSync, existsSync, openSync } from 'node:fs'
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll } from '@jest/globals'
import type { Pool, PoolConfig } from 'pg'
import { eventually } from './eventually.js'
import { freePort } from './free-port.js'
import { ADMIN, giveToServer, newDataFolder, poolOf, postgresProgram } from './postgres-server.js'

/** A database of its own on the PostgreSQL that all test files of this run share. */
export interface TestDatabase {
  /** `postgres://…`, for any client. */
  readonly url: string
  readonly port: number
  readonly name: string
  /** A pool of it, ended after the last test. */
  pool(options?: PoolConfig): Pool
}

/** A database from before the first to after the last test of the file or of the `describe` block that declares it. */
export function testPostgres(): TestDatabase {
  const name = `test_${randomUUID().replaceAll('-', '')}`
  const pools = new Set<Pool>()
  let port = 0
  const url = (database: string) => `postgres://${ADMIN}@127.0.0.1:${port}/${database}`
  const asAdmin = async (statement: string) => {
    const admin = poolOf({ connectionString: url('postgres'), max: 1 })
    await admin.query(statement)
    await admin.end()
  }
  beforeAll(async () => {
    port = await sharedServer()
    await asAdmin(`CREATE DATABASE ${name}`)
  })
  afterAll(async () => {
    await Promise.all([...pools].filter(pool => !pool.ending).map(pool => pool.end()))
    await asAdmin(`DROP DATABASE ${name} WITH (FORCE)`)
  })
  return {
    name,
    get url() {
      return url(name)
    },
    get port() {
      return port
    },
    pool(options) {
      const pool = poolOf({ connectionString: url(name), ...options })
      pools.add(pool)
      return pool
    },
  }
}

/**
 * The port of the server of this run of Jest: the first worker that asks starts it, and it ends within a second after
 * the run. Starting one takes half a second, which files that only need a database should not pay each.
 */
async function sharedServer(): Promise<number> {
  const run = process.env.SPILLWAY_RUN
  if (!run) throw new Error('jest.config.js names the run in SPILLWAY_RUN')
  const folder = join(tmpdir(), `spillway-run-${run}`)
  const told = join(folder, 'port')
  const first = await mkdir(folder).then(
    () => true,
    () => false,
  )
  if (first) {
    await giveToServer(folder)
    await writeFile(`${told}.new`, String(await startFor(Number(run.split('-')[0]), folder)))
    await rename(`${told}.new`, told)
  } else {
    await eventually(`the PostgreSQL of this run, in ${folder}`, async () => existsSync(told))
  }
  return Number(await readFile(told, 'utf8'))
}

/** Runs the server in a shell that ends it and removes `folder` when the process `owner` is gone. */
const SHELL = `owner=$1 folder=$2; shift 2
"$@" & server=$!
while ps -p "$owner" && kill -0 "$server"; do sleep 1; done >/dev/null
kill -QUIT "$server"; wait "$server"; rm -rf "$folder"`

async function startFor(owner: number, folder: string): Promise<number> {
  const data = join(folder, 'data')
  await mkdir(data)
  await giveToServer(data)
  await newDataFolder(data)
  const port = await freePort()
  const { command, args, ready, user } = postgresProgram(data, port, { settings: { max_connections: 300 } })
  const log = join(folder, 'log')
  const output = openSync(log, 'a')
  spawn('sh', ['-c', SHELL, 'sh', String(owner), folder, command, ...args], {
    cwd: folder,
    detached: true,
    stdio: ['ignore', output, output],
    ...user,
  }).unref()
  closeSync(output)
  await eventually(`PostgreSQL on port ${port}`, async () => ready.test(await readFile(log, 'utf8')))
  return port
}
