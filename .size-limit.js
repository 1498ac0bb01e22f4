// What a user's bundle grows by, in kB, minified and not compressed: `npm run check` measures it in dist/. A budget is
// what it was when it was last set, and a hundredth more.
import { readFileSync } from 'node:fs'

/** @param {string} file */
const read = file => JSON.parse(readFileSync(new URL(file, import.meta.url), 'utf8'))

/** Each entry point with all its names. */
const WHOLE = {
  index: 313,
  adaptive: 21,
  alerts: 20,
  bottleneck: 59,
  'bottleneck/light': 26,
  dashboard: 414,
  express: 219,
  'express-rate-limit': 172,
  fastify: 222,
  fetch: 137,
  h3: 221,
  hono: 221,
  koa: 219,
  'koa-ratelimit': 150,
  live: 59,
  mcp: 97,
  nest: 144,
  node: 218,
  opentelemetry: 12,
  outgoing: 85,
  postgres: 54,
  prometheus: 13,
  'rate-limiter-flexible': 166,
  sqlite: 40,
  testing: 2,
  ws: 94,
}

/** [the names that a program takes, of which entry point, kB]: what it does not use is left out. */
const PARTS = /** @type {const} */ ([
  ['{ PolicyError }', 'index', 1],
  ['{ RateLimiter }', 'index', 86],
  ['{ RateLimiter, RedisStore }', 'index', 224],
  ['{ rateLimit }', 'express', 136],
  ['{ rateLimit }', 'fetch', 137],
  ['{ rateLimit }', 'koa', 136],
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
