import { spawnSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { run, userProject } from '../package/packing.js'
import { root } from '../support/files.js'
import { RedisServer } from '../support/redis-server.js'

const { peerDependencies, scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))

/** Of each optional peer a version before those that the tests run. */
const OLD_PEERS: Record<string, string> = {
  '@modelcontextprotocol/sdk': '0.7.0',
  '@nestjs/common': '10.4.22',
  '@nestjs/throttler': '5.2.0',
  '@opentelemetry/api': '1.0.4',
  '@upstash/redis': '1.20.0',
  '@valkey/valkey-glide': '1.3.4',
  'better-sqlite3': '8.0.0',
  express: '3.21.2',
  fastify: '3.29.5',
  h3: '1.15.11',
  hono: '2.7.8',
  ioredis: '4.31.0',
  iovalkey: '0.1.0',
  koa: '1.7.1',
  pg: '7.18.2',
  postgres: '1.0.2',
  'prom-client': '12.0.0',
  redis: '3.1.2',
  ws: '7.5.10',
}

test('nothing runs when the package is installed, and every version of a peer is accepted', () => {
  // `prepare` runs in a clone and for a dependency by git; npm never runs it for a tarball or from a registry.
  expect(['preinstall', 'install', 'postinstall'].filter(name => name in scripts)).toEqual([])
  expect(Object.keys(peerDependencies).sort()).toEqual(Object.keys(OLD_PEERS).sort())
  expect(new Set(Object.values(peerDependencies))).toEqual(new Set(['*']))
})

/** What a program prints that uses the package with an old peer: what was let through, or the error. */
const WITH_OLD: [peer: string, program: string, printed: string | RegExp][] = [
  [
    'redis 3',
    `const client = require('redis').createClient(PORT).on('error', () => {})
     try { new RedisStore(client) } finally { client.end(false) }`,
    'PolicyError: RedisStore: client a client of node-redis 3 or earlier, whose commands return no promises: expected version 4.6 or later ' +
      '(npm install redis@latest), like createClient({ url }), and await its connect()',
  ],
  [
    'fastify 3',
    `await require('fastify')().register(require('spillway/fastify'), { policy: '2/1m' })`,
    'PolicyError: rateLimit: registered in Fastify 3.29.5: expected Fastify 4.29 or later (npm install fastify@latest)',
  ],
  [
    'h3 1',
    `const { createApp, toWebHandler } = require('h3')
     const onError = ({ cause }) => { throw cause }
     const app = createApp({ onError }).use(require('spillway/h3').rateLimit({ policy: '2/1m' }))
     await toWebHandler(app)(new Request('http://service.example/'))`,
    'PolicyError: rateLimit: called without a function next, as by h3 1 or as a handler: expected to be middleware of h3 2, like app.use(rateLimit({ … }))',
  ],
  [
    'hono 2',
    `const app = new (require('hono').Hono)()
     app.use('*', require('spillway/hono').rateLimit({ policy: '2/1m' }))
     app.onError(error => { throw error })
     await app.request('http://service.example/')`,
    'PolicyError: rateLimit: called by Hono 2 or earlier: expected Hono 3.12 or later (npm install hono@latest)',
  ],
  // Koa refuses before it calls anything of ours.
  [
    'koa 1',
    `require('koa')().use(require('spillway/koa').rateLimit({ policy: '2/1m' }))`,
    /^AssertionError.*: app.use\(\) requires a generator function$/,
  ],
  [
    'koa 1, from a generator',
    `const limit = require('spillway/koa').rateLimit({ policy: '2/1m' })
     const app = require('koa')()
     app.use(function* (next) { yield limit(this, next) })
     app.on('error', error => { throw error })
     const server = app.listen(0)
     const failed = new Promise((_, reject) => process.once('uncaughtException', reject))
     await Promise.race([failed, fetch('http://127.0.0.1:' + server.address().port)])`,
    'PolicyError: rateLimit: called without a function next, as by Koa 1: expected Koa 2 or 3, like app.use(rateLimit({ … }))',
  ],
  [
    'prom-client 12',
    `require('spillway/prometheus').prometheusObserver()`,
    'PolicyError: prometheusObserver: this prom-client is older than version 13: expected version 15 (npm install prom-client@latest)',
  ],
  [
    '@opentelemetry/api 1.0',
    `require('spillway/opentelemetry').openTelemetryObserver()`,
    'PolicyError: openTelemetryObserver: this @opentelemetry/api has no metrics: expected version 1.9 or later (npm install @opentelemetry/api@latest)',
  ],
  [
    '@nestjs/throttler 5',
    `await new (require('spillway/nest').ThrottlerStorage)().increment('key', 60000)`,
    'PolicyError: ThrottlerStorage: called without a limit, as by @nestjs/throttler 5 or earlier: expected version 6 (npm install @nestjs/throttler@6)',
  ],
  // These work, although no contract runs with them.
  ...Object.entries({
    'ioredis 4': "new (require('ioredis'))(PORT)",
    'iovalkey 0.1': "new (require('iovalkey'))(PORT)",
    '@valkey/valkey-glide 1':
      "await require('@valkey/valkey-glide').GlideClient.createClient({ addresses: [{ host: '127.0.0.1', port: PORT }] })",
  }).map(([peer, client]): [string, string, string] => [
    peer,
    `const store = new RedisStore(${client}, { prefix: '${peer}' })
     const limiter = new RateLimiter({ policy: '2/1m', store })
     for (const _ of '123') {
       const { allowed, source } = await limiter.consume('key')
       said.push(allowed, source)
     }`,
    'true redis true redis false redis',
  ]),
  [
    'express 3',
    `const app = require('express')()
     app.use(require('spillway/express').rateLimit({ policy: '2/1m' }))
     app.get('/', (req, res) => res.send('served'))
     const server = app.listen(0)
     for (const _ of '123') said.push((await fetch('http://127.0.0.1:' + server.address().port)).status)`,
    '200 200 429',
  ],
  [
    'ws 7',
    `const { Server } = require('ws')
     const server = new Server({ port: 0 })
     const client = new (require('ws'))('ws://127.0.0.1:' + server.address().port)
     client.on('open', () => { for (const text of 'abc') client.send(text) })
     await new Promise(resolve => server.on('connection', socket => {
       require('spillway/ws').limitMessages(socket, { policy: '2/1m', onLimit: (_, message) => resolve(said.push('refused ' + message)) })
       socket.on('message', message => said.push(String(message)))
     }))`,
    'a b refused c',
  ],
  [
    '@nestjs/common 10',
    `const { RateLimitModule, RateLimitGuard, RateLimits } = require('spillway/nest')
     const { exports } = RateLimitModule.forRoot({ policy: '2/1m' })
     said.push(exports[0] === RateLimits, typeof new RateLimitGuard(new RateLimits()).canActivate)`,
    'true function',
  ],
]

describe('beside versions of all peers that are too old', () => {
  let home: string
  let redis: RedisServer

  beforeAll(async () => {
    redis = await RedisServer.start()
    const project = userProject({ dependencies: OLD_PEERS })
    home = project.home
    run(home, 'npm', 'install', '--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline', project.tarball)
  }, 100_000)

  afterAll(async () => {
    await redis.stop()
    rmSync(home, { recursive: true, force: true })
  })

  test.each(WITH_OLD)('%s works, or one sentence says what is needed', (_, program, printed) => {
    const file = join(home, 'program.cjs')
    const text = `const { RateLimiter, RedisStore } = require('spillway')
      const said = []
      const main = async () => { ${program.replace('PORT', String(redis.port))} }
      main().then(() => said.join(' '), String).then(text => { console.log(text); process.exit() })`
    writeFileSync(file, text)
    const answer = run(home, process.execPath, '--no-warnings', file).trim()
    if (typeof printed === 'string') expect(answer).toBe(printed)
    else expect(answer).toMatch(printed)
  })
})

/** The entry points whose `require` gives a function, as users of CommonJS and of ES modules write them. */
const REQUIRED = `
  import rateLimit = require('spillway/express-rate-limit')
  import koaRatelimit = require('spillway/koa-ratelimit')
  import fastifyLimit = require('spillway/fastify')
  const options: Partial<rateLimit.Options> = { windowMs: rateLimit.MINUTE }
  const store: rateLimit.Store = new rateLimit.MemoryStore()
  const limiter: rateLimit.RateLimitRequestHandler = rateLimit({ ...options, store })
  const koa: koaRatelimit.MiddlewareOptions = { driver: 'memory', db: new Map(), max: 5 }
  const fastify: fastifyLimit.RateLimitOptions = { policy: '100/1m', hook: 'preHandler' }
  koaRatelimit(koa)
  limiter.resetKey('key')
  fastifyLimit.shed
  // @ts-expect-error: typed, not any
  rateLimit({ limit: 5n })
`
const IMPORTED = `
  import rateLimit, { MINUTE, type Options, type RateLimitRequestHandler } from 'spillway/express-rate-limit'
  import koaRatelimit, { type MiddlewareOptions } from 'spillway/koa-ratelimit'
  import fastifyLimit, { type RateLimitOptions } from 'spillway/fastify'
  const options: Partial<Options> = { windowMs: MINUTE }
  const limiter: RateLimitRequestHandler = rateLimit(options)
  const koa: MiddlewareOptions = { driver: 'memory', db: new Map(), max: 5 }
  export const fastify: RateLimitOptions = { policy: '100/1m', hook: 'preHandler' }
  export const all = [koaRatelimit(koa), limiter, fastifyLimit]
  // @ts-expect-error: typed, not any
  rateLimit({ limit: 5n })
`

/** A worker: what runs without Node's modules compiles without their types. */
const EDGE = `
  import { type RedisClient, RateLimiter, RedisStore, Semaphore } from 'spillway'
  import { rateLimit } from 'spillway/fetch'
  declare const redis: RedisClient
  const store = new RedisStore(redis)
  export const all = [new RateLimiter({ policy: '1/1s', store }), new Semaphore(redis, 'jobs')]
  const limit = rateLimit({ policy: '100/1m', store, addressHeader: 'cf-connecting-ip' })
  export default {
    async fetch(request: Request): Promise<Response> {
      const { refusal, apply } = await limit(request, {})
      return refusal ?? apply(new Response('hello'))
    },
  }
`

/** File of a user → how it is written, by the way in which TypeScript finds modules. */
const RESOLUTIONS: Record<string, { options: object; files: Record<string, string> }> = {
  node10: {
    options: { module: 'commonjs', moduleResolution: 'node10', esModuleInterop: true },
    files: { 'required.ts': REQUIRED, 'imported.ts': IMPORTED },
  },
  node16: {
    options: { module: 'node16', moduleResolution: 'node16' },
    files: { 'required.cts': REQUIRED, 'imported.cts': IMPORTED, 'imported.mts': IMPORTED },
  },
  nodenext: {
    options: { module: 'nodenext', moduleResolution: 'nodenext' },
    files: { 'required.cts': REQUIRED, 'imported.cts': IMPORTED, 'imported.mts': IMPORTED },
  },
  bundler: {
    options: { module: 'esnext', moduleResolution: 'bundler' },
    files: { 'imported.ts': IMPORTED },
  },
  worker: {
    options: { module: 'esnext', moduleResolution: 'bundler', lib: ['esnext', 'dom'], types: [] },
    files: { 'worker.ts': EDGE },
  },
}

const COMPILERS: Record<string, { compiler: string; resolutions: string[] }> = {
  'TypeScript 5.4': { compiler: 'typescript54', resolutions: Object.keys(RESOLUTIONS) },
  'TypeScript 5.9': { compiler: 'typescript59', resolutions: ['nodenext'] },
  'TypeScript 6': { compiler: 'typescript6', resolutions: ['node10', 'nodenext', 'bundler', 'worker'] },
}

describe('the declarations compile, all of them checked', () => {
  let home: string

  beforeAll(() => {
    const dependencies = {
      typescript54: 'npm:typescript@~5.4.0',
      typescript59: 'npm:typescript@~5.9.0',
      typescript6: 'npm:typescript@^6.0.0',
      '@types/express': '^5.0.0',
      '@types/koa': '^3.0.0',
      '@types/node': '^20.0.0',
      fastify: '^5.0.0',
    }
    const project = userProject({ dependencies })
    home = project.home
    run(home, 'npm', 'install', '--no-audit', '--no-fund', '--prefer-offline', project.tarball)
  }, 100_000)

  afterAll(() => rmSync(home, { recursive: true, force: true }))

  test.each(
    Object.entries(COMPILERS).flatMap(([version, { compiler, resolutions }]) =>
      resolutions.map(resolution => ({ version, compiler, resolution })),
    ),
  )('$version, $resolution', ({ version, compiler, resolution }) => {
    const { options, files } = RESOLUTIONS[resolution]
    for (const name in files) writeFileSync(join(home, name), files[name])
    const compilerOptions = {
      strict: true,
      noEmit: true,
      target: 'es2022',
      lib: ['es2022'],
      types: ['node'],
      declaration: true,
    }
    const more = { ...options, skipLibCheck: false, ...(version === 'TypeScript 6' && { ignoreDeprecations: '6.0' }) }
    writeFileSync(
      join(home, 'tsconfig.json'),
      JSON.stringify({ compilerOptions: { ...compilerOptions, ...more }, files: Object.keys(files) }),
    )
    const tsc = join(home, 'node_modules', compiler, 'lib/tsc.js')
    const { stdout } = spawnSync(process.execPath, [tsc, '-p', home, '--pretty', 'false'], {
      cwd: home,
      encoding: 'utf8',
    })
    // The types of frameworks have errors of their own now and then.
    const errors = stdout.split('\n').filter(line => /^\S/.test(line) && !/^node_modules\/(?!spillway)/.test(line))
    expect(errors).toEqual([])
  })
})
