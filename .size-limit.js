// What a user's bundle grows by, in kB, minified and not compressed: `npm run check` measures it in dist/. A budget is
// what it was when it was last set, and a hundredth more.
import { readFileSync } from 'node:fs'

/** @param {string} file */
const read = file => JSON.parse(readFileSync(new URL(file, import.meta.url), 'utf8'))

/** Each entry point with all its names. */
const WHOLE = {
  index: 307,
  adaptive: 21,
  alerts: 20,
  bottleneck: 57,
  'bottleneck/light': 25,
  dashboard: 438,
  express: 213,
  'express-rate-limit': 168,
  fastify: 216,
  fetch: 132,
  h3: 215,
  hono: 215,
  koa: 213,
  'koa-ratelimit': 209,
  live: 56,
  mcp: 95,
  nest: 139,
  node: 212,
  opentelemetry: 12,
  outgoing: 80,
  postgres: 69,
  prometheus: 13,
  'rate-limiter-flexible': 223,
  sqlite: 61,
  testing: 2,
  ws: 90,
}

/** [the names that a program takes, of which entry point, kB]: what it does not use is left out. */
const PARTS = /** @type {const} */ ([
  ['{ PolicyError }', 'index', 1],
  ['{ RateLimiter }', 'index', 84],
  ['{ RateLimiter, RedisStore }', 'index', 215],
  ['{ rateLimit }', 'express', 131],
  ['{ rateLimit }', 'fetch', 131],
  ['{ rateLimit }', 'koa', 131],
])

const unmeasured = Object.keys(read('scripts/entries.json')).filter(entry => !(entry in WHOLE))
if (unmeasured.length > 0) throw new Error(`no budget for ${unmeasured.join(', ')}`)

const shared = {
  ignore: Object.keys(read('package.json').peerDependencies),
  gzip: false,
  brotli: false,
  /** @param {object} config */
  modifyEsbuildConfig: config => ({ ...config, platform: 'node', format: 'esm' }),
}

export default [
  ...Object.entries(WHOLE).map(([entry, kB]) => ({
    name: entry,
    path: `dist/esm/${entry}.js`,
    limit: `${kB} kB`,
    ...shared,
  })),
  ...PARTS.map(([names, entry, kB]) => ({
    name: `${names} of ${entry}`,
    path: `dist/esm/${entry}.js`,
    import: names,
    limit: `${kB} kB`,
    ...shared,
  })),
]
