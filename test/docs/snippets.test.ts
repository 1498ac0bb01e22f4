import { format } from 'node:util'
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import * as express from '../../src/http/adapters/express.js'
import * as fastify from '../../src/http/adapters/fastify.js'
import * as fetching from '../../src/http/adapters/fetch.js'
import * as h3 from '../../src/http/adapters/h3.js'
import * as hono from '../../src/http/adapters/hono.js'
import * as koa from '../../src/http/adapters/koa.js'
import * as mcp from '../../src/http/adapters/mcp.js'
import * as node from '../../src/http/adapters/node.js'
import * as ws from '../../src/http/adapters/ws.js'
import * as spillway from '../../src/index.js'
import * as adaptive from '../../src/operating/adaptive/index.js'
import * as dashboard from '../../src/operating/dashboard/index.js'
import * as live from '../../src/operating/live/index.js'
import * as alerts from '../../src/operating/observing/alerts/index.js'
import * as opentelemetry from '../../src/operating/observing/opentelemetry.js'
import * as prometheus from '../../src/operating/observing/prometheus.js'
import * as outgoing from '../../src/outgoing/index.js'
import { Bottleneck } from '../../src/replacing/bottleneck/index.js'
import * as dropIn from '../../src/replacing/express-rate-limit/index.js'
import * as koaRatelimit from '../../src/replacing/koa-ratelimit/index.js'
import * as flexible from '../../src/replacing/rate-limiter-flexible/index.js'
import * as postgres from '../../src/sql/postgres-store.js'
import * as testing from '../../src/testing.js'
import { runSample } from '../support/sample.js'
import { testPostgres } from '../support/test-postgres.js'
import { testRedis } from '../support/test-redis.js'
import { PAGES, SNIPPETS, type Snippet } from './pages.js'
import { prelude } from './prelude.js'

/** With time for an answer of Redis on a busy machine: a decision without Redis would count elsewhere. */
class RateLimiter extends spillway.RateLimiter {
  constructor(options: spillway.RateLimiterOptions) {
    super({ deadline: '5s', ...options })
  }
}

const OURS: Record<string, unknown> = {
  spillway: { ...spillway, RateLimiter },
  'spillway/express': express,
  'spillway/fastify': { __esModule: true, ...fastify },
  'spillway/fetch': fetching,
  'spillway/h3': h3,
  'spillway/hono': hono,
  'spillway/koa': koa,
  // Loaded by its own page only: NestJS is large.
  get 'spillway/nest'() {
    return require('../../src/http/adapters/nest.js')
  },
  'spillway/mcp': mcp,
  'spillway/node': node,
  'spillway/ws': ws,
  'spillway/express-rate-limit': { __esModule: true, ...dropIn },
  'spillway/rate-limiter-flexible': flexible,
  'spillway/koa-ratelimit': { __esModule: true, ...koaRatelimit },
  'spillway/bottleneck': Bottleneck,
  'spillway/adaptive': adaptive,
  'spillway/alerts': alerts,
  'spillway/dashboard': dashboard,
  'spillway/opentelemetry': opentelemetry,
  'spillway/prometheus': prometheus,
  'spillway/outgoing': outgoing,
  'spillway/postgres': postgres,
  'spillway/live': live,
  'spillway/testing': testing,
}

// Pages whose programs print seconds: only their date stands still, so that a busy machine does not turn 60 seconds
// into 59.
const standsStill = (page: string) => page.startsWith('docs/from-') && !/bottleneck|p-queue/.test(page)
const RUNNING = [
  'setTimeout',
  'setInterval',
  'setImmediate',
  'nextTick',
  'queueMicrotask',
  'performance',
  'hrtime',
] as const
const ENDING = ['clearTimeout', 'clearInterval', 'clearImmediate'] as const

/** Programs that listen on a port of their own choice: programs.test.ts and mounts.test.ts run them in processes. */
const isProgram = ({ code }: Snippet) => /\.listen\(\d{4}\)|port: (?:3000|4400)\b/.test(code)
/** Node has SQLite from 22.13 on: test/sql/sqlite runs them. */
const needsSqlite = ({ code }: Snippet) => code.includes("'spillway/sqlite'")

const database = testPostgres()
/** Of pg, which connects to the database of the tests. */
function TestPool() {
  return database.pool({ max: 2 })
}

describe.each(PAGES.filter(page => SNIPPETS.some(snippet => snippet.page === page)))('the snippets of %s', page => {
  const redis = testRedis()
  beforeEach(() => {
    if (standsStill(page)) jest.useFakeTimers({ doNotFake: [...RUNNING, ...ENDING] })
  })
  afterEach(() => void jest.useRealTimers())

  const snippets = SNIPPETS.filter(snippet => snippet.page === page && !isProgram(snippet) && !needsSqlite(snippet))
  const rows = snippets.map(snippet => [snippet.line, snippet] as const)
  if (rows.length > 0) {
    test.each(rows)('in line %i runs and prints what the page says', async (_, { code, output }) => {
      const { values, clients, glide, upstash, close } = await prelude(redis.url)
      const printed: string[] = []
      const log = (...values: unknown[]) => printed.push(`${format(...values)}\n`)
      const modules: Record<string, unknown> = {
        ...OURS,
        ioredis: clients,
        pg: { Pool: TestPool },
        '@valkey/valkey-glide': glide,
        '@upstash/redis': upstash,
      }
      try {
        await runSample(code, module => modules[module] ?? require(module), { ...values, console: { ...console, log } })
      } finally {
        await close()
      }
      expect(printed.join('')).toBe(output ?? '')
    })
  }
})
