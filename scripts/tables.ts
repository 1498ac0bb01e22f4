// Fills the tables of docs/ that repeat what the code says or computes. The text around them is written by hand:
//
//   <!-- table clients -->
//   <!-- end -->
//
//   node --import tsx scripts/tables.ts            writes the pages
//   node --import tsx scripts/tables.ts --check    writes nothing; exit code 1 and one line when a page is stale
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { poissonComparisons, poissonTable } from '../bench/accuracy/tables.js'
import { mostAllowedTable } from '../bench/algorithms/most-allowed-table.js'
import { tableText } from '../bench/contest/figures.js'
import { OBSERVED_OBJECTS } from '../src/limiter/core/observer.js'
import type { AlertRule } from '../src/operating/observing/alerts/alert-rule.js'
import { CONDITIONS } from '../src/operating/observing/alerts/conditions.js'
import { METRICS, type Metric } from '../src/operating/observing/metrics.js'
import { panelsOf } from '../test/support/grafana-dashboard.js'
import { rulesInPrometheus } from '../test/support/prometheus-rules.js'
import { CLIENTS } from '../test/support/tested-clients.js'
import { OLDER_CLIENTS } from '../test/versions/older-clients.js'
import { panelFile } from './panel-chart.js'

const fileOf = (path: string) => new URL(`../${path}`, import.meta.url)
const markdown = (...rows: readonly (readonly string[])[]) => rows.map(cells => `| ${cells.join(' | ')} |`).join('\n')
/** What a benchmark prints, without its caption. */
const printed = (text: string) => text.slice(text.indexOf('|'))

/** The metrics, as the code has them. */
function metrics(): string {
  const rows = (Object.values(METRICS) as readonly Metric[]).map(({ kind, name, instrument, unit, labels, help }) => [
    `\`ratelimit_${name}\``,
    `\`${instrument}\``,
    `${kind}${unit === 's' ? ', s' : ''}`,
    labels.map(label => `\`${label}\``).join(', ') || 'none',
    help,
  ])
  const head = ['Prometheus', 'OpenTelemetry', 'kind', 'labels', 'what it counts']
  return markdown(head, ['---', '---', '---', '---', '---'], ...rows)
}

/** The labels of the metrics. A queue is named by a label of its own. */
function labels(): string {
  const codes = (values: readonly string[]) => values.map(value => `\`${value}\``).join(', ')
  const values: Readonly<Record<string, string>> = {
    limiter: 'the option `name`, `default` without one',
    limit: 'the name of the strictest limit, like `100-per-1m`',
    outcome:
      'of decisions `allowed`, `refused`, `shadow`, `blocked`; of the store `ok`, `error`; of waits `granted`, `timeout`, `aborted`; of holds `released`, `lost`; of deliveries `ack`, `nack`, `dead`, `stale`; of leases `bought`, `expired`',
    source:
      'who decided: `memory`, `redis`, `postgres`, `sqlite`, `lease`, `deny-cache`, or the failure policy: `fallback`, `open`, `closed`',
    object: codes(OBSERVED_OBJECTS.filter(object => object !== 'queue')),
    name: 'as it was built',
    queue: 'as it was built',
  }
  const used = new Set((Object.values(METRICS) as readonly Metric[]).flatMap(metric => metric.labels))
  const rows = [...used].map(label => {
    if (values[label] === undefined)
      throw new Error(`scripts/tables.ts does not say which values the label ${label} has`)
    return [`\`${label}\``, values[label]]
  })
  return markdown(['label', 'values'], ['---', '---'], ...rows)
}

/** The default rules, with the alert of ops/alerts.yml that has the same threshold. */
function defaultRules(): string {
  const written = {
    share: (above: number) => `${100 * above} %`,
    ms: (above: number) => `${above / 1000} s`,
    count: String,
  }
  const rows = rulesInPrometheus(fileOf('ops/alerts.yml')).map(({ rule, alert, range, forText }) => {
    const { name, when, above, over = '1m' }: AlertRule = rule
    const lasting = when === 'breaker-open' || when === 'consumer-failed'
    return [
      name,
      `\`${when}\``,
      written[CONDITIONS[when].unit](above),
      lasting ? 'while it lasts' : `\`${over}\``,
      `\`${alert}\``,
      [range && `over \`${range}\``, forText && `for \`${forText}\``].filter(Boolean).join(', ') || 'at once',
    ]
  })
  const head = ['rule', '`when`', 'above', '`over`', 'in Prometheus', 'there']
  return markdown(
    head,
    head.map(() => '---'),
    ...rows,
  )
}

/** Each panel of the dashboard for Grafana: its query, and a picture of the answer. */
function panels(): string {
  return panelsOf(fileOf('ops/dashboard.json'))
    .map(({ title, description, queries }) => {
      const asked = queries.map(({ expression }) => expression).join('\n')
      const picture = `![${title}](observing/${panelFile(title)})`
      return [`## ${title}`, description, `\`\`\`promql\n${asked}\n\`\`\``, picture].join('\n\n')
    })
    .join('\n\n')
}

/** [client, its package, what a cell says instead of yes]. */
const TESTED: readonly (readonly [name: string, peer: string, besides?: { listens?: string; blocks?: string }])[] = [
  ['ioredis', 'ioredis'],
  ['iovalkey', 'iovalkey'],
  ['node-redis', 'redis', { listens: 'not by Sentinel', blocks: 'not by Sentinel' }],
  ['GLIDE', '@valkey/valkey-glide', { listens: '2.3 and later' }],
  ['@upstash/redis', '@upstash/redis'],
]

/** The clients, as the contracts run them. */
function clients(): string {
  const kinds = Object.entries({ ...CLIENTS, ...OLDER_CLIENTS })
  const rows = TESTED.map(([name, peer, besides = {}]) => {
    const versions = installedVersions(peer)
    const tested = kinds.filter(([title]) => title.startsWith(`${name} `))
    const every = (has: (kind: (typeof tested)[number][1]) => boolean) => tested.every(([, kind]) => has(kind))
    const withSentinel = tested.filter(([, { sentinel }]) => sentinel).map(([title]) => title.slice(name.length + 1))
    return [
      peer === 'redis' ? name : peer,
      `${versions[0]} to ${versions[versions.length - 1]}`,
      'yes',
      every(({ cluster }) => cluster !== undefined) ? 'yes' : '–',
      withSentinel.length === tested.length ? 'yes' : withSentinel.sort().join(', ') || '–',
      every(({ listens }) => listens) ? (besides.listens ?? 'yes') : '–',
      every(({ blocks }) => blocks) ? (besides.blocks ?? 'yes') : '–',
    ]
  })
  const runtimes = JSON.parse(readFileSync(fileOf('test/runtimes/binaries/package.json'), 'utf8'))
  const [, bun] = /(\d+\.\d+)/.exec(runtimes.dependencies['@oven/bun-linux-x64']) as RegExpExecArray
  rows.push(['`RedisClient` of Bun', bun, 'yes', '–', '–', '–', '–'])
  const head = ['client', 'versions', 'one server', 'cluster', 'Sentinel', 'listens', 'blocks']
  return markdown(head, ['---', '---', '---', '---', '---', '---', '---'], ...rows)
}

/** [what it is called, entry point, its package, where the decision is]. */
const FRAMEWORKS: readonly (readonly [name: string, entry: string, peer: string | undefined, decision: string])[] = [
  ['[Express](docs/express.md)', 'express', 'express', '`req.rateLimit`'],
  ['[Koa](docs/koa.md)', 'koa', 'koa', '`ctx.state.rateLimit`'],
  ['[Fastify](docs/fastify.md)', 'fastify', 'fastify', '`request.rateLimit`'],
  ['[Hono](docs/hono.md)', 'hono', 'hono', "`c.get('rateLimit')`"],
  ['[h3, Nitro](docs/h3.md)', 'h3', 'h3', '`event.context.rateLimit`'],
  ['[NestJS](docs/nest.md)', 'nest', '@nestjs/common', '`req.rateLimit`'],
  ['[fetch handlers](docs/fetch.md)', 'fetch', undefined, '`decision`'],
  ['[node:http, node:http2](docs/node.md)', 'node', undefined, '`req.rateLimit`'],
  ['[Tools of MCP servers](docs/mcp.md)', 'mcp', '@modelcontextprotocol/sdk', '`error.data`'],
  ['[WebSockets](docs/ws.md), `ws`', 'ws', 'ws', '`onLimit(decision)`'],
]

/** Each entry point for a framework: the major versions that the tests install, and what else it exports. */
async function frameworks(): Promise<string> {
  const entries: Record<string, string> = JSON.parse(readFileSync(fileOf('scripts/entries.json'), 'utf8'))
  const adapters = Object.keys(entries).filter(name => entries[name].startsWith('src/http/adapters/'))
  const missing = adapters.filter(name => !FRAMEWORKS.some(([, entry]) => entry === name))
  if (missing.length > 0) throw new Error(`the table of frameworks lacks ${missing.join(', ')}`)
  const rows = FRAMEWORKS.map(async ([name, entry, peer, decision]) => {
    const exported = await import(fileOf(entries[entry]).href)
    const majors = peer === undefined ? [] : installedVersions(peer).map(version => version.split('.')[0])
    const more = 'concurrencyLimit' in exported && 'shed' in exported
    return [name, `\`spillway/${entry}\``, [...new Set(majors)].join(', '), decision, more ? 'yes' : '–']
  })
  const head = ['', 'import', 'versions', 'the decision', '`concurrencyLimit`, `shed`']
  return markdown(head, ['---', '---', '---', '---', '---'], ...(await Promise.all(rows)))
}

/** The versions of a package that the tests install, `major.minor`, the oldest first. */
function installedVersions(peer: string): string[] {
  const packages = (file: string) => JSON.parse(readFileSync(fileOf(file), 'utf8'))
  const { devDependencies } = packages('package.json')
  return Object.entries<string>({ ...devDependencies, ...packages('test/versions/package.json').dependencies })
    .filter(([name, range]) => name === peer || range.startsWith(`npm:${peer}@`))
    .map(([, range]) => /(\d+\.\d+)\.\d+$/.exec(range)?.[1] ?? range)
    .sort((a, b) => a.localeCompare(b, 'en', { numeric: true }))
}

/** Each decision, the newest first, and whether it still stands: the line below its title says so. */
function decisions(): string {
  const folder = fileOf('docs/decisions/')
  const files = readdirSync(folder).filter(file => /^\d{4}-/.test(file))
  const rows = files
    .sort()
    .reverse()
    .map(file => {
      const text = readFileSync(new URL(file, folder), 'utf8')
      const title = /^# (.+)$/m.exec(text)?.[1]
      if (title === undefined) throw new Error(`docs/decisions/${file} has no title`)
      const superseded = /^\d{4}-\d\d-\d\d\. (Partly superseded|Superseded) (by \[.+?\]\(.+?\.md\))/m.exec(text)
      return [
        file.slice(0, 10),
        `[${title}](${file})`,
        superseded ? `${superseded[1].toLowerCase()} ${superseded[2]}` : 'stands',
      ]
    })
  return markdown(['date', 'decision', 'state'], ['---', '---', '---'], ...rows)
}

const TABLES: Readonly<Record<string, Readonly<Record<string, () => string | Promise<string>>>>> = {
  'README.md': { frameworks },
  'docs/algorithms.md': {
    'most-allowed': () => printed(tableText(mostAllowedTable())),
    poisson: () => printed(poissonTable(poissonComparisons())),
  },
  'docs/clients.md': { clients },
  'docs/decisions/README.md': { decisions },
  'docs/grafana.md': { panels },
  'docs/observing.md': { metrics, labels, 'default-rules': defaultRules },
}

for (const [page, tables] of Object.entries(TABLES)) {
  const before = readFileSync(fileOf(page), 'utf8')
  let after = before
  for (const [name, text] of Object.entries(tables)) {
    const block = new RegExp(`(?<=^<!-- table ${name} -->\n)[\\s\\S]*?(?=^<!-- end -->$)`, 'm')
    if (!block.test(after)) throw new Error(`${page} has no place for the table ${name}`)
    const lines = await text()
    after = after.replace(block, () => `\n${lines}\n\n`)
  }
  if (!process.argv.includes('--check')) writeFileSync(fileOf(page), after)
  else if (before !== after) {
    console.error(`tables: ${page} is stale: run \`npm run tables\``)
    process.exitCode = 1
  }
}
