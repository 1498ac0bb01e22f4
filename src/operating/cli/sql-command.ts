import { PostgresStore } from '../../sql/postgres-store.js'
import { type Command, EXIT, type Option, shownArgument, UsageError, write } from './arguments.js'

/** The option of every command that names the table of a store. */
export const TABLE_OPTION = { value: 'the name of a table', example: '--table spillway' } as const satisfies Option

const HELP = `Usage: spillway sql postgres [options]

Prints the statements that make the table of a PostgresStore, for psql or a migration tool. They do no harm where the table exists.

  spillway sql postgres | psql "$DATABASE_URL"
  spillway sql postgres --table limits.spillway --logged > migrations/0042-spillway.sql

  --table NAME     default spillway; may name the schema
  --logged         the table survives a crash of the server, for more disk writes. Default: it is empty then, and every limit
                   starts afresh
  -h, --help

The user of the store needs SELECT, INSERT, UPDATE and DELETE on the table, and USAGE on its schema. A SqliteStore makes its table by itself.
`

export const sqlCommand: Command = {
  summary: 'prints the statements that make the table of a store',
  help: HELP,
  options: { table: TABLE_OPTION, logged: { example: '--logged' } },

  async run(given, { stdout }) {
    const [database, ...more] = given.positionals
    if (database !== 'postgres' || more.length > 0) {
      const shown = given.positionals.map(shownArgument).join(' ') || 'no database'
      throw new UsageError(`given ${shown}, expected postgres, like: spillway sql postgres --table spillway`)
    }
    const [table] = given.values('table')
    await write(stdout, PostgresStore.schema({ ...(table !== undefined && { table }), logged: given.has('logged') }))
    return EXIT.ok
  },
}
