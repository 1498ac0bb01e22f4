// What may import what in src/: `npm run lint` checks it. The rings are those of docs/architecture.md.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** From the inside. A file imports from its own folder, or from a folder of an inner ring. */
export const RINGS = [
  ['limiter'],
  ['redis', 'sql', 'leases'],
  ['waiting', 'http'],
  ['outgoing', 'operating', 'replacing'],
]

/**
 * Within a ring: what a folder takes from a neighbour.
 * @type {Readonly<Record<string, readonly string[]>>}
 */
const NEIGHBOURS = {
  leases: ['redis/'],
  http: ['waiting/semaphore/'],
}

/**
 * Rooms within a folder, and what each takes from the others. Files that lie beside the rooms are for all of them.
 * @type {Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>}
 */
const ROOMS = {
  operating: {
    observing: [],
    live: [],
    adaptive: [],
    // It shows how a load moves a number of permits.
    dashboard: ['live', 'observing', 'adaptive'],
    cli: ['dashboard', 'live', 'observing'],
  },
  replacing: {
    'express-rate-limit': [],
    'koa-ratelimit': [],
    'rate-limiter-flexible': [],
    bottleneck: [],
  },
}

/**
 * Imports that point outward today: [from, to, what ends it]. Each is wrong, and none is added: an entry that nothing
 * needs any longer is an error, too.
 * @type {ReadonlyArray<readonly [from: string, to: string, end: string]>}
 */
const KNOWN = [
  ['src/waiting/queue/delay-queue.ts', 'src/operating/object-index.ts', 'part 9'],
  ['src/waiting/rate/shared-rate-limiter.ts', 'src/operating/object-index.ts', 'part 9'],
  ['src/waiting/semaphore/semaphore.ts', 'src/operating/object-index.ts', 'part 9'],
]

/** Frameworks and clients: a user brings them, so that only their types are imported. */
const BROUGHT = [
  'express',
  'fastify',
  'h3',
  'hono',
  'koa',
  'ws',
  'redis',
  'ioredis',
  'iovalkey',
  '@valkey/valkey-glide',
  '@upstash/redis',
  'pg',
  'postgres',
  'better-sqlite3',
]
const SPEAK_OF_BROUGHT = ['http/adapters/', 'replacing/']

/** Entry points that load an optional peer, and no other. */
const PEERS_OF = {
  'src/http/adapters/nest.ts': '@nestjs/common',
  'src/operating/observing/prometheus.ts': 'prom-client',
  'src/operating/observing/opentelemetry.ts': '@opentelemetry/api',
}

/** What is made for a browser (see scripts/embed-page.mjs), and the library that goes into it. */
const PAGE = '^src/.+/page/'
const PAGE_LIBRARY = 'preact'

/** The only files beside the folders: entry points that compose. Nothing of src/ imports them. */
const BESIDE = ['index.ts', 'testing.ts']

/** @param {string} text */
const literally = text => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
/** @param {string} path */
const file = path => `^${literally(path)}$`
/** @param {string} path a folder of src/, or its beginning */
const inside = path => `^src/${literally(path)}`
/** @param {string} name as it is imported, or as it lies in node_modules */
const packageNamed = name => `(^|^node_modules/)${literally(name)}(/|$)`

/**
 * A folder may take this and nothing else of src/; what a file of it is known to take besides has a rule of its own.
 * @param {string} name
 * @param {string} from
 * @param {string[]} allowed
 * @param {typeof KNOWN} known
 */
function only(name, from, allowed, known) {
  const excused = known.filter(([source]) => new RegExp(from).test(source))
  const sources = [...new Set(excused.map(([source]) => source))]
  return [
    { name, from: { path: from, pathNot: sources.map(file) }, to: { path: '^src/', pathNot: allowed } },
    ...sources.map(source => ({
      name,
      from: { path: file(source) },
      to: {
        path: '^src/',
        pathNot: [...allowed, ...excused.filter(([by]) => by === source).map(([, to]) => file(to))],
      },
    })),
  ]
}

/** @param {typeof KNOWN} known */
const rings = known =>
  RINGS.flatMap((folders, ring) =>
    folders.flatMap(folder => {
      const inner = RINGS.slice(0, ring).flat()
      const allowed = [`${folder}/`, ...inner.map(name => `${name}/`), ...(NEIGHBOURS[folder] ?? [])]
      return only('outward', inside(`${folder}/`), allowed.map(inside), known)
    }),
  )

/** @param {typeof KNOWN} known */
const rooms = known =>
  Object.entries(ROOMS).flatMap(([folder, within]) =>
    Object.entries(within).flatMap(([room, others]) => {
      const beside = Object.keys(within).filter(other => other !== room && !others.includes(other))
      const elsewhere = `^src/(?!${folder}/)`
      const allowed = [elsewhere, `^src/${folder}/(?!(?:${beside.map(literally).join('|')})/)`]
      return only('another-room', inside(`${folder}/${room}/`), allowed, known)
    }),
  )

/** Of the packages that users bring, types only, and only where it is about them; of others, what PEERS_OF says. */
const packages = [
  {
    name: 'framework-at-run-time',
    from: { path: '^src/' },
    to: { path: BROUGHT.map(packageNamed), dependencyTypesNot: ['type-only'] },
  },
  {
    name: 'framework-elsewhere',
    from: { path: '^src/', pathNot: SPEAK_OF_BROUGHT.map(inside) },
    to: { path: BROUGHT.map(packageNamed) },
  },
  ...Object.entries(PEERS_OF).flatMap(([entry, peer]) => [
    {
      name: 'peer-elsewhere',
      from: { path: '^src/', pathNot: file(entry) },
      to: { path: packageNamed(peer) },
    },
    {
      // Who does not import this entry point works without the peer.
      name: 'entry-of-a-peer',
      from: { path: '^src/' },
      to: { path: file(entry) },
    },
  ]),
  {
    name: 'library-elsewhere',
    from: { path: '^src/', pathNot: PAGE },
    to: { path: packageNamed(PAGE_LIBRARY) },
  },
  {
    name: 'other-package',
    from: { path: '^src/' },
    to: {
      path: '.',
      pathNot: ['^src/', ...[...BROUGHT, ...Object.values(PEERS_OF), PAGE_LIBRARY].map(packageNamed)],
      dependencyTypesNot: ['core'],
    },
  },
]

/** Pages: see also scripts/embed-page.mjs, which fails when one reaches a module of Node. */
const pages = [
  { name: 'node-in-a-page', from: { path: PAGE }, to: { dependencyTypes: ['core'] } },
  {
    name: 'page-at-run-time',
    from: { path: '^src/', pathNot: PAGE },
    to: { path: PAGE, dependencyTypesNot: ['type-only'] },
  },
]

const NO_PLACE = `^src/(?!(?:${RINGS.flat().join('|')})/|(?:${BESIDE.map(literally).join('|')})$)`
/** They say nothing: utils.ts, common/, redis-helpers.ts. */
const EMPTY_NAME = '^src.*[/-](utils?|helpers?|types?|common|manager|base)[-./]'

const places = [
  { name: 'no-place', from: { path: '^src/' }, to: { path: NO_PLACE } },
  { name: 'no-place', from: { path: NO_PLACE }, to: {} },
  { name: 'empty-name', from: { path: '^src/' }, to: { path: EMPTY_NAME } },
  { name: 'empty-name', from: { path: EMPTY_NAME }, to: {} },
  { name: 'entry-from-within', from: { path: '^src/' }, to: { path: BESIDE.map(name => file(`src/${name}`)) } },
]

const root = fileURLToPath(new URL('.', import.meta.url))

/**
 * The rules, with these imports excused.
 * @param {typeof KNOWN} known
 * @param {string} home the folder that has src/
 */
export function rulesOf(known, home = root) {
  const gone = known.flatMap(([from, to, _end]) => [from, to]).filter(path => !existsSync(join(home, path)))
  if (gone.length > 0) throw new Error(`KNOWN names files that are gone: ${gone.join(', ')}`)
  const forbidden = [
    ...rings(known),
    ...rooms(known),
    ...packages,
    ...pages,
    ...places,
    { name: 'cycle', from: { path: '^src/' }, to: { circular: true } },
  ]
  return {
    forbidden: forbidden.map(rule => ({ severity: 'error', ...rule })),
    required: known.map(([from, to, end]) => ({
      name: 'no-longer-needed',
      comment: `its entry in KNOWN can go: ${to} (${end})`,
      severity: 'error',
      module: { path: file(from) },
      to: { path: file(to) },
    })),
    options: {
      doNotFollow: { path: 'node_modules' },
      // Types count, and are told from what is left at run time.
      tsPreCompilationDeps: 'specify',
      tsConfig: { fileName: join(root, 'tsconfig.json') },
      // h3 exports no file without a runtime.
      enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['node', 'import', 'require', 'default'] },
    },
  }
}

export default rulesOf(KNOWN)
