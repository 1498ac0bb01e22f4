/** Entry points: the name that users import after `spillway/` → the source. package.json gives each file of dist/ with such a name. */
export const ENTRIES = {
  index: 'src/index.ts',
  adaptive: 'src/adaptive/index.ts',
  alerts: 'src/observing/alerts/index.ts',
  dashboard: 'src/dashboard/index.ts',
  'express-rate-limit': 'src/express-rate-limit/index.ts',
  express: 'src/adapters/express.ts',
  fastify: 'src/adapters/fastify.ts',
  fetch: 'src/adapters/fetch.ts',
  hono: 'src/adapters/hono.ts',
  'koa-ratelimit': 'src/koa-ratelimit/index.ts',
  koa: 'src/adapters/koa.ts',
  live: 'src/live/index.ts',
  nest: 'src/adapters/nest.ts',
  node: 'src/adapters/node.ts',
  opentelemetry: 'src/observing/opentelemetry.ts',
  outgoing: 'src/outgoing/index.ts',
  prometheus: 'src/observing/prometheus.ts',
  'rate-limiter-flexible': 'src/rate-limiter-flexible/index.ts',
  testing: 'src/testing.ts',
  ws: 'src/adapters/ws.ts',
}

/** Entry points whose `require` gives the default export itself, with all names as its properties, as the package that they replace. */
export const CALLABLE = new Set(['express-rate-limit', 'fastify', 'koa-ratelimit'])
