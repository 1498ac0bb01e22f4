import type { Finding } from './run.js'

const SHARED = ['SharedRateLimiter', 'Semaphore', 'DelayQueue']

/** The rows of the README's table: the cases that each tells of, and whether its cells say what the cases say, or only that they pass. */
const ROWS: readonly (readonly [title: string, tells: (name: string) => boolean, inWords?: true])[] = [
  ['every algorithm, exact in memory', name => name === 'exact in memory'],
  ['exact on Redis: ioredis, node-redis', name => name.startsWith('exact on Redis')],
  ['Express', name => name === 'Express'],
  ['`spillway/fetch`, served by', name => name === 'fetch', true],
  ['requests that end early', name => name.endsWith('requests that end early')],
  [SHARED.map(name => `\`${name}\``).join(', '), name => SHARED.some(object => name.startsWith(object))],
  ['`import` and `require`; nothing keeps a process alive', name => name === 'entry points' || name === 'ends'],
  ['`processLoad` measures', name => name === 'processLoad', true],
]

/** What the README's table has to be after these findings, in Markdown. */
export function tableOf(findings: readonly Finding[]): string {
  const columns = new Map<string, Finding[]>()
  for (const finding of findings) {
    columns.set(finding.runtime.column, [...(columns.get(finding.runtime.column) ?? []), finding])
  }
  const heads = [...columns].map(([column, found]) => `${column} ${versionsOf(found).join(', ')}`)
  const rows = ROWS.map(([title, tells, inWords]) => {
    const cells = [...columns.values()].map(found =>
      cellOf(
        found.filter(({ name }) => tells(name)),
        inWords,
      ),
    )
    return `| ${title} | ${cells.join(' | ')} |`
  })
  return [`| | ${heads.join(' | ')} |`, `|${' --- |'.repeat(columns.size + 1)}`, ...rows].join('\n')
}

/** Node is known by its major version, the others by the minor as well. */
function versionsOf(found: readonly Finding[]): string[] {
  return [
    ...new Set(found.map(({ runtime }) => runtime.version.split('.', runtime.column === 'Node' ? 1 : 2).join('.'))),
  ].sort()
}

function cellOf(found: readonly Finding[], inWords?: true): string {
  if (found.length === 0 || found.some(({ error }) => error !== undefined)) return 'no'
  return inWords ? [...new Set(found.map(({ told }) => told))].join('; ') : 'yes'
}
