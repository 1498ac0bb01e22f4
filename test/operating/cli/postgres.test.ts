import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { PassThrough } from 'node:stream'
import { beforeAll, describe, expect, jest, test } from '@jest/globals'
import type { Pool } from 'pg'
import { SpillwayError } from '../../../src/limiter/core/errors.js'
import { type Command, runCommand, type Terminal } from '../../../src/operating/cli/arguments.js'
import type { Finding, State } from '../../../src/operating/cli/doctor/diagnosis.js'
import { doctorCommand } from '../../../src/operating/cli/doctor/doctor-command.js'
import { examinePostgres, readPostgresUrl } from '../../../src/operating/cli/doctor/postgres.js'
import { sqlCommand } from '../../../src/operating/cli/sql-command.js'
import { PostgresStore } from '../../../src/sql/postgres-store.js'
import { testPostgres } from '../../support/test-postgres.js'
import { spawnSpillway } from './spawn-spillway.js'

// Processes that first compile TypeScript, on a machine that may be busy.
jest.setTimeout(60_000)

const database = testPostgres()
let pool: Pool
beforeAll(() => {
  pool = database.pool()
})

async function outputOf(command: Command, args: readonly string[]): Promise<string> {
  const output = new PassThrough()
  const terminal = { stdin: process.stdin, stdout: output, stderr: output, env: {} } as unknown as Terminal
  const failed = await runCommand(command, args, terminal, new AbortController().signal).then(
    () => '',
    (error: unknown) => {
      expect(error).toBeInstanceOf(SpillwayError)
      return (error as SpillwayError).message
    },
  )
  return `${output.read() ?? ''}${failed}`
}

describe('spillway sql', () => {
  test('prints statements that make the table, also where it exists', async () => {
    const statements = await outputOf(sqlCommand, ['postgres', '--table', 'printed'])
    expect(statements).toBe(PostgresStore.schema({ table: 'printed' }))
    await pool.query(statements)
    await pool.query(statements)
    await new PostgresStore(pool, { table: 'printed' }).reset([])
    expect((await pool.query("SELECT relpersistence AS kept FROM pg_class WHERE relname = 'printed'")).rows).toEqual([
      { kept: 'u' },
    ])
  })

  test('--logged makes one that survives a crash', async () => {
    expect(await outputOf(sqlCommand, ['postgres', '--logged'])).toBe(PostgresStore.schema({ logged: true }))
  })

  test.each([
    [[], 'given no database, expected postgres, like: spillway sql postgres --table spillway'],
    [['mysql'], 'given "mysql", expected postgres'],
    [['postgres', 'postgres://u:SECRET@h'], 'given "postgres" (not repeated here'],
    [['postgres', '--table', 'a b'], 'PostgresStore.schema: table "a b": expected letters'],
  ])('%j is refused', async (args, message) => {
    const output = await outputOf(sqlCommand, args)
    expect(output).toContain(message)
    expect(output).not.toContain('SECRET')
  })
})

const never = new AbortController().signal
const look = (table = 'spillway', url = database.url, folder?: string) =>
  examinePostgres(url, { table, prefix: 'spillway' }, { answerMs: 5000, interrupted: never }, folder)

async function expectOne(findings: readonly Finding[], subject: string, state: State, text: RegExp, remedy = /^/) {
  const found = findings.filter(finding => finding.subject === subject)
  expect(found).toEqual([expect.objectContaining({ state, text: expect.stringMatching(text) })])
  expect(found[0].remedy ?? '').toMatch(remedy)
}

describe('spillway doctor --postgres', () => {
  beforeAll(() => new PostgresStore(pool).createTable())

  test('finds nothing wrong with a table as the store makes it, and leaves no row that lasts', async () => {
    const findings = await look()
    // How quickly the server answers is the machine's: any state of `latency` is right.
    expect(findings.map(({ subject, state }) => [subject, subject === 'latency' ? 'ok' : state])).toEqual(
      [
        'version',
        'role',
        'isolation',
        'connections',
        'latency',
        'clock',
        'table',
        'fill factor',
        'rights',
        'decisions',
        'writes',
        'snapshots',
      ].map(subject => [subject, 'ok']),
    )
    await expectOne(findings, 'table', 'ok', /^spillway, unlogged: after a crash/)
    const { rows } = await pool.query('SELECT key FROM spillway WHERE expires_at > $1', [Date.now() + 5000])
    expect(rows).toEqual([])
  })

  test('prints the same as text and as JSON, without a password', async () => {
    const url = database.url.replace('spillway@', 'spillway:SECRET@')
    const args = ['doctor', '--postgres', url, '--json']
    const { exitCode, stdout, stderr } = await spawnSpillway(args)
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
    const { postgres, ok, findings } = JSON.parse(stdout)
    expect({ postgres, ok }).toEqual({ postgres: database.url, ok: true })
    await expectOne(findings, 'version', 'ok', /^PostgreSQL \d+/)
    const text = await outputOf(doctorCommand, args.slice(1, 3))
    expect(text).toMatch(/^postgres:.*\n\nok {7}version {6}PostgreSQL .*\n\n0 problems, \d warnings? \(\d+\.\d s\)\n$/s)
    expect(text.match(/^warning (?! latency)/m)).toBe(null)
    expect(`${text}${stdout}`).not.toContain('SECRET')
  })

  test('uses postgres where there is no pg, and says so where there is neither', async () => {
    const [without, folder] = [1, 2].map(() => mkdtempSync(join(tmpdir(), 'spillway-')))
    try {
      await expect(look('spillway', database.url, without)).rejects.toThrow(
        '--postgres needs the package pg or postgres in this folder',
      )
      mkdirSync(join(folder, 'node_modules'))
      symlinkSync(resolve('node_modules/postgres'), join(folder, 'node_modules/postgres'))
      const findings = await look('spillway', database.url, folder)
      expect(findings.filter(({ subject, state }) => state !== 'ok' && subject !== 'latency')).toEqual([])
      expect(findings).toHaveLength(12)
    } finally {
      for (const one of [without, folder]) rmSync(one, { recursive: true })
    }
  })

  test('a table that is missing, or of another format, is a problem', async () => {
    await expectOne(
      await look('limits.none'),
      'table',
      'problem',
      /^there is no table limits\.none$/,
      /spillway sql postgres --table limits\.none/,
    )
    await pool.query(PostgresStore.schema({ table: 'newer' }))
    await pool.query("COMMENT ON TABLE newer IS 'spillway format 99'")
    await expectOne(
      await look('newer'),
      'table',
      'problem',
      /^newer is of "spillway format 99"/,
      /one version of spillway/,
    )
  })

  test('a user without a right is told which, and so is one whose decisions fail', async () => {
    await pool.query('CREATE ROLE reader LOGIN')
    try {
      await pool.query('GRANT SELECT, INSERT ON spillway TO reader')
      const findings = await look('spillway', database.url.replace('spillway@', 'reader@'))
      await expectOne(
        findings,
        'rights',
        'problem',
        /^reader may not UPDATE, DELETE/,
        /^GRANT UPDATE, DELETE ON "spillway" TO "reader"$/,
      )
      await expectOne(
        findings,
        'decisions',
        'problem',
        /permission denied for table spillway/,
        /GRANT SELECT, INSERT, UPDATE, DELETE/,
      )
    } finally {
      await pool.query('DROP OWNED BY reader; DROP ROLE reader')
    }
  })

  test('what slows the writes of a table is a warning', async () => {
    await pool.query(PostgresStore.schema({ table: 'slow', logged: true }))
    await pool.query('ALTER TABLE slow SET (fillfactor = 100)')
    await pool.query('CREATE INDEX ON slow (expires_at)')
    await pool.query('CREATE PUBLICATION everything FOR TABLE slow')
    const findings = await look('slow')
    await expectOne(findings, 'table', 'ok', /logged: it survives a crash/)
    await expectOne(findings, 'fill factor', 'warning', /^100: /, /^ALTER TABLE "slow" SET \(fillfactor = 70\)/)
    await expectOne(findings, 'writes', 'warning', /2 indexes, expected that of the key alone/, /drop/)
    await expectOne(findings, 'snapshots', 'warning', /^publication everything sends every decision/)
  })

  test('a server that only reads, and another isolation than that of the store, are told', async () => {
    const settings = { default_transaction_isolation: 'repeatable read', default_transaction_read_only: 'on' }
    for (const [name, value] of Object.entries(settings)) {
      await pool.query(`ALTER DATABASE ${database.name} SET ${name} = '${value}'`)
    }
    try {
      const findings = await look()
      await expectOne(findings, 'role', 'problem', /^default_transaction_read_only is on/)
      await expectOne(findings, 'isolation', 'warning', /is repeatable read: .*40001/)
      await expectOne(findings, 'decisions', 'problem', /read-only transaction/, /pool of the primary/)
    } finally {
      for (const name of Object.keys(settings)) await pool.query(`ALTER DATABASE ${database.name} RESET ${name}`)
    }
  })

  test('a server that cannot be reached, and a database that is not there, are problems with a remedy', async () => {
    await expectOne(
      await look('spillway', 'postgres://u@127.0.0.1:1/app'),
      'server',
      'problem',
      /ECONNREFUSED/,
      /whether it runs/,
    )
    const url = `postgres://spillway@127.0.0.1:${database.port}/none`
    await expectOne(
      await look('spillway', url),
      'server',
      'problem',
      /database "none" does not exist/,
      /names the database/,
    )
  })

  test.each([
    [['--postgres', 'mysql://u:SECRET@h'], '--postgres: given something else, expected a URL like postgres://'],
    [['--postgres', 'SECRET'], '--postgres: given something else'],
    [['--postgres', 'postgres://h', '--redis', 'redis://u:SECRET@h'], 'given redis beside --postgres'],
    [['--table', 'x', '--redis', 'redis://h'], '--table: expected it with --postgres'],
  ])('%j is refused', async (args, message) => {
    const output = await outputOf(doctorCommand, args)
    expect(output).toContain(message)
    expect(output).not.toContain('SECRET')
  })

  test.each([
    ['postgres://ann:secret@h:1/app?sslmode=require&password=secret', 'postgres://ann@h:1/app'],
    ['postgresql://SECRET@h/app', 'postgresql://***@h/app'],
    ['postgres:///app?host=/run/postgresql', 'postgres:///app'],
  ])('%s is shown as %s', (url, shown) => {
    expect(readPostgresUrl(url)).toEqual({ url, shown })
  })
})
