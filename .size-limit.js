// What a user's bundle grows by, in kB, minified and not compressed: `npm run package` measures it in dist/. A budget is
// what it was when it was last set, rounded up a little.
import { readFileSync } from 'node:fs'

/** @param {string} file */
const read = file => JSON.parse(readFileSync(new URL(file, import.meta.url), 'utf8'))

/** Each entry point with all its names. */
const WHOLE = {
  index: 310,
  adaptive: 123,
  alerts: 25,
  bottleneck: 57,
  'bottleneck/light': 25,
  dashboard: 440,
  express: 224,
  'express-rate-limit': 251,
  fastify: 225,
  fetch: 139,
  hono: 225,
  koa: 224,
  'koa-ratelimit': 24,
  live: 59,
  nest: 145,
  node: 222,
  opentelemetry: 16,
  outgoing: 83,
  postgres: 74,
  prometheus: 17,
  'rate-limiter-flexible': 39,
  sqlite: 65,
  testing: 2,
  ws: 90,
}

/** [the names that a program takes, of which entry point, kB]: what it does not use is left out. */
const PARTS = /** @type {const} */ ([
  ['{ PolicyError }', 'index', 1],
  ['{ RateLimiter }', 'index', 85],
  ['{ RateLimiter, RedisStore }', 'index', 218],
  ['{ rateLimit }', 'express', 137],
  ['{ rateLimit }', 'fetch', 137],
  ['{ rateLimit }', 'koa', 137],
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
