import type { Finding } from './run.js'
import type { Runtime } from './runtimes.js'

const SHARED = ['SharedRateLimiter', 'Semaphore', 'DelayQueue', 'LivePolicies']

/**
 * The rows of the table of docs/runtimes.md: the cases that each tells of, and whether its cells say what the cases
 * say, or only that they pass.
 */
const ROWS: readonly (readonly [title: string, tells: (name: string) => boolean, inWords?: true])[] = [
  ['every algorithm, exact in memory', name => name === 'exact in memory'],
  ['exact on Redis: ioredis, node-redis', name => name.startsWith('exact on Redis')],
  ['exact on SQLite: its library', name => name === 'exact on SQLite', true],
  ['`RedisClient` of Bun: stores, shared objects, live limits', name => name.endsWith(', Bun')],
  ['Express, h3', name => name === 'Express' || name === 'h3'],
  ['`spillway/fetch`, served by', name => name === 'fetch', true],
  ['requests that end early', name => name.endsWith('requests that end early')],
  [SHARED.map(name => `\`${name}\``).join(', '), name => SHARED.some(object => name.startsWith(object))],
  ['`import` and `require`; nothing keeps a process alive', name => name === 'entry points' || name === 'ends'],
  ['`processLoad` measures', name => name === 'processLoad', true],
]

/** What the table of docs/runtimes.md has to be after these findings, in Markdown. */
export function tableOf(runtimes: readonly Runtime[], findings: readonly Finding[]): string {
  const columns = [...new Set(runtimes.map(({ column }) => column))]
  const heads = columns.map(column => `${column} ${versionsOf(runtimes.filter(runtime => runtime.column === column))}`)
  const rows = ROWS.map(([title, tells, inWords]) => {
    const told = findings.filter(({ name }) => tells(name))
    const cells = columns.map(column => {
      const found = told.filter(({ runtime }) => runtime.column === column)
      return cellOf(found, inWords)
    })
    return `| ${title} | ${cells.join(' | ')} |`
  })
  return [`| | ${heads.join(' | ')} |`, `|${' --- |'.repeat(columns.length + 1)}`, ...rows].join('\n')
}

/** Node is known by its major version, the others by the minor as well. */
function versionsOf(runtimes: readonly Runtime[]): string {
  const parts = ({ column, version }: Runtime) => version.split('.', column === 'Node' ? 1 : 2)
  return runtimes.map(runtime => parts(runtime).join('.')).join(', ')
}

function cellOf(found: readonly Finding[], inWords?: true): string {
  if (found.length === 0 || found.some(({ error }) => error !== undefined)) return 'no'
  return inWords ? [...new Set(found.map(({ told }) => told))].join('; ') : 'yes'
}
