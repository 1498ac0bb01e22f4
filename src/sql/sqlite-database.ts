import { PolicyError, StoreError, shown } from '../limiter/core/errors.js'

/** A prepared statement of any of the three libraries. */
export interface SqliteStatement {
  get(...values: readonly unknown[]): unknown
  run(...values: readonly unknown[]): unknown
}

/**
 * What a store uses of a database: the same in node:sqlite, bun:sqlite and better-sqlite3. Every call is synchronous.
 */
export interface SqliteDatabase {
  exec(sql: string): unknown
  prepare(sql: string): SqliteStatement
  close(): unknown
}

type Open = new (path: string) => SqliteDatabase

/**
 * Where the class of a database is in each library, in the order in which they are tried: the runtime's own, then what
 * the service has installed.
 */
const LIBRARIES: ReadonlyArray<readonly [name: string, classIn: (library: unknown) => unknown]> = [
  ['node:sqlite', library => (library as { DatabaseSync?: unknown }).DatabaseSync],
  ['bun:sqlite', library => (library as { Database?: unknown }).Database],
  ['better-sqlite3', library => (library as { default?: unknown }).default ?? library],
]

/** Opens a file. Throws `PolicyError` if this runtime has no library, `StoreError` if it cannot be opened. */
export function openSqlite(path: string, owner: string): SqliteDatabase {
  const Database = findLibrary()
  if (Database === undefined) {
    throw new PolicyError(
      `${owner}: given the path ${shown(path)}, and there is no library to open it: expected Node 22.13 or ` +
        'later, Deno, Bun, or better-sqlite3 installed (npm install better-sqlite3)',
    )
  }
  try {
    return new Database(path)
  } catch (cause) {
    throw new StoreError(
      `${owner}: cannot open ${shown(path)}: ${messageOf(cause)}: expected a file in a folder that exists`,
      {
        cause,
      },
    )
  }
}

export function isSqliteDatabase(database: unknown): database is SqliteDatabase {
  if (typeof database !== 'object' || database === null) return false
  const { exec, prepare, close } = database as Partial<SqliteDatabase>
  return [exec, prepare, close].every(method => typeof method === 'function')
}

function findLibrary(): Open | undefined {
  for (const [name, classIn] of LIBRARIES) {
    const library = load(name)
    const found = library && classIn(library)
    if (typeof found === 'function') return found as Open
  }
  return undefined
}

/**
 * A module of the runtime, or of the service's folder: a store for which no library is needed must load without one.
 */
function load(name: string): object | undefined {
  const { process } = globalThis
  try {
    const own = name.includes(':') ? process.getBuiltinModule(name) : undefined
    return own ?? process.getBuiltinModule('node:module').createRequire(`${process.cwd()}/index.js`)(name)
  } catch {
    return undefined
  }
}

/** The primary result codes of SQLite that matter here. */
const BUSY = 5
const LOCKED = 6
const CODES: Readonly<Record<string, number>> = {
  SQLITE_BUSY: BUSY,
  SQLITE_LOCKED: LOCKED,
  SQLITE_READONLY: 8,
  SQLITE_FULL: 13,
  SQLITE_CANTOPEN: 14,
  SQLITE_NOTADB: 26,
}
const ADVICE: Readonly<Record<number, string>> = {
  8: 'the file can only be read: expected one that this process may write, in a folder that it may write',
  13: 'make room on its disk',
  14: 'expected a file in a folder that exists',
  26: 'expected the path of a database of SQLite',
}

function codeOf(error: unknown): number | undefined {
  const { errcode, errno, code } = (error ?? {}) as { errcode?: unknown; errno?: unknown; code?: unknown }
  const number = typeof errcode === 'number' ? errcode : errno
  if (typeof number === 'number') return number & 255
  return CODES[/^SQLITE_[A-Z]+/.exec(String(code))?.[0] ?? '']
}

/** Whether another process is writing. */
export function isLocked(error: unknown): boolean {
  const code = codeOf(error)
  return code === BUSY || code === LOCKED
}

/** Whether another process or another user of the connection is at work: the same call may succeed later. */
export function isBusy(error: unknown): boolean {
  return isLocked(error) || /within a transaction|busy executing a query/.test(messageOf(error))
}

export function sqliteError(error: unknown, file: string): StoreError {
  if (error instanceof StoreError) return error
  const advice = ADVICE[codeOf(error) ?? 0]
  return new StoreError(`${file} failed: ${messageOf(error)}${advice === undefined ? '' : `: ${advice}`}`, {
    cause: error,
  })
}

function messageOf(error: unknown): string {
  return (error as Error)?.message ?? shown(error)
}
