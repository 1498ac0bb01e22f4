import { spawnSync } from 'node:child_process'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { root } from '../support/files.js'
import { run, userProject } from './packing.js'

// What users write, in both kinds of module.
const USE = {
  core: `
    import { MemoryStore, parsePolicy, RateLimiter } from 'spillway'
    import { ManualClock } from 'spillway/testing'
    const clock = new ManualClock(0)
    const limiter = new RateLimiter({ policy: '1/1s', store: new MemoryStore({ clock }) })
    export const answers = async (): Promise<boolean[]> => {
      const first = await limiter.consume('me')
      const second = await limiter.consume('me')
      clock.advance(second.retryAfterMs)
      const third = await limiter.consume('me')
      await limiter.close()
      return [first.allowed, second.allowed, third.allowed]
    }
    export const quota: number = parsePolicy('1/1s')[0].quota
    // @ts-expect-error: typed, not any
    limiter.consume(1n)
  `,
  express: `
    import express from 'express'
    import { rateLimit } from 'spillway/express'
    express().use(rateLimit({ policy: '100/1m', key: req => req.get('x-user') }))
    express().get('/', (req, res) => void res.json(req.rateLimit?.remaining))
    // @ts-expect-error: typed, not any
    rateLimit({ policy: 5n })
  `,
  'express-rate-limit': `
    import express from 'express'
    import rateLimit, { MemoryStore, RedisStore, ipKeyGenerator, rateLimit as named, SECOND } from 'spillway/express-rate-limit'
    import type { AugmentedRequest, Options, RateLimitInfo, RateLimitRequestHandler, Store } from 'spillway/express-rate-limit'
    const options: Partial<Options> = { limit: 5, windowMs: 60 * SECOND, store: new MemoryStore() }
    const limiter: RateLimitRequestHandler = rateLimit({ ...options, keyGenerator: req => ipKeyGenerator(req.ip!, 56) })
    express().use(limiter, named())
    express().get('/', (req, res) => void res.json((req as AugmentedRequest).rateLimit.remaining))
    export const store = (client: object): Store => new RedisStore({ client })
    export const left = (info: RateLimitInfo): number => info.remaining
    // @ts-expect-error: typed, not any
    rateLimit({ windowMs: '1m' })
  `,
  fetch: `
    import { rateLimit } from 'spillway/fetch'
    const limit = rateLimit({ policy: '100/1m', key: request => request.headers.get('x-user') ?? undefined, settle: (_, { status }) => status })
    export const answer = async (request: Request): Promise<Response> => {
      const { refusal, decision, apply } = await limit(request, { address: '192.0.2.1' })
      return refusal ?? apply(Response.json(decision?.remaining))
    }
    // @ts-expect-error: typed, not any
    limit(new Request('https://service.example/'), { address: 5 })
  `,
  koa: `
    import Koa from 'koa'
    import { rateLimit } from 'spillway/koa'
    new Koa().use(rateLimit({ policy: '100/1m', key: ctx => ctx.get('x-user') }))
    // @ts-expect-error: typed, not any
    rateLimit({ policy: 5n })
  `,
  'rate-limiter-flexible': `
    import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes, type RateLimiterLike } from 'spillway/rate-limiter-flexible'
    export const limiters: RateLimiterLike[] = [new RateLimiterMemory({ points: 5, duration: 1 })]
    export const over = (storeClient: object): RateLimiterRedis => new RateLimiterRedis({ storeClient, points: 5, duration: 1 })
    export const isRefusal = (reason: unknown): reason is RateLimiterRes => reason instanceof RateLimiterRes
    // @ts-expect-error: typed, not any
    new RateLimiterMemory({ points: 5n, duration: 1 })
  `,
  postgres: `
    import { Pool } from 'pg'
    import { RateLimiter } from 'spillway'
    import { PostgresStore, type SqlClient } from 'spillway/postgres'
    const store = new PostgresStore(new Pool(), { prefix: 'shop', prepare: 'auto' })
    export const limiter = new RateLimiter({ policy: '100/1m', store })
    export const over = (client: SqlClient): Promise<void> => new PostgresStore(client).createTable({ logged: true })
    export const ddl: string = PostgresStore.schema({ table: 'limits.spillway' })
    // @ts-expect-error: typed, not any
    new PostgresStore(new Pool(), { prepare: 5n })
  `,
  sqlite: `
    import { RateLimiter } from 'spillway'
    import { SqliteStore } from 'spillway/sqlite'
    export const limiter = (path: string): RateLimiter => new RateLimiter({ policy: '100/1m', store: new SqliteStore(path, { busy: '5ms' }) })
    // @ts-expect-error: typed, not any
    new SqliteStore(5n)
  `,
  'koa-ratelimit': `
    import Koa from 'koa'
    import ratelimit, { type MiddlewareOptions } from 'spillway/koa-ratelimit'
    const options: ratelimit.MiddlewareOptions = { driver: 'memory', db: new Map(), max: 5, id: ctx => ctx.ip }
    export const same: MiddlewareOptions = options
    new Koa().use(ratelimit(options))
    // @ts-expect-error: typed, not any
    ratelimit({ max: 5n })
  `,
}

const JOBS = `
  import Bottleneck from 'spillway/NAME'
  const options: Bottleneck.ConstructorOptions = { maxConcurrent: 2, strategy: Bottleneck.strategy.LEAK }
  const job: Bottleneck.JobOptions = { priority: 3, weight: 2, expiration: 1000, id: 'one' }
  const limiter = new Bottleneck(options)
  limiter.chain()
  limiter.chain(new Bottleneck())
  export const result: Promise<number> = limiter.schedule(job, async (factor: number) => factor * 2, 21)
  export const counts: Bottleneck.Counts = limiter.counts()
  export const running: number = counts.RUNNING
  const told: Bottleneck.Callback<string> = (error, text) => void [error, text?.length]
  limiter.submit((name: string, done: Bottleneck.Callback<string>) => done(null, name), 'me', told)
  limiter.on('failed', (error, info) => (info.retryCount < 2 ? 10 : undefined))
  // @ts-expect-error: no text
  const wrong: Bottleneck.ConstructorOptions = { maxConcurrent: 'two' }
  // @ts-expect-error: not the name of an option
  const unknown: Bottleneck.JobOptions = { prioritee: 3 }
  // @ts-expect-error: a number
  const text: string = limiter.counts().EXECUTING
  // @ts-expect-error: what the function gives
  const other: Promise<string> = limiter.schedule(async () => 5)
`

const LOADED = `
  const clock = new testing.ManualClock(0)
  const limiter = new core.RateLimiter({ policy: '1/1s', store: new core.MemoryStore({ clock }) })
  const asked = async () => (await limiter.consume('me')).allowed
  const answers = async () => {
    const early = [await asked(), await asked()]
    clock.advance(1000)
    const { default: rateLimit, MemoryStore } = dropIn
    const dropped = [rateLimit, dropIn.rateLimit].every(make => typeof make().getKey === 'function')
    const hits = (await new MemoryStore().increment('me')).totalHits
    const kinds = [typeof express.rateLimit, typeof koa.rateLimit]
    console.log(JSON.stringify([...early, await asked(), ...kinds, dropped, hits]))
    await limiter.close()
  }
  answers()
`

const NAMES = { core: '', express: '/express', koa: '/koa', testing: '/testing', dropIn: '/express-rate-limit' }
/** Entry points whose `require` gives the function itself, as in the packages that they replace. */
const CALLED = ['express-rate-limit', 'koa-ratelimit']
const ANSWERS = [true, false, true, 'function', 'function', true, 1]

describe('the package as users get it', () => {
  let home: string
  let tarball: string
  const installed = (file: string) => join(home, 'node_modules/spillway', file)

  beforeAll(() => {
    ;({ home, tarball } = userProject())
    run(home, 'npm', 'install', '--offline', '--no-audit', '--no-fund', tarball)
  }, 60_000)

  afterAll(() => rmSync(home, { recursive: true, force: true }))

  test('exports its entry points and nothing else', () => {
    const names = [
      'chunks/rate-limiter',
      'esm/express',
      'src/limiter/decider',
      'limiter/decider',
      'express-names',
      'cli',
      'nothing',
    ]
    const program = `
      const code = name => { try { return require.resolve(name) } catch (error) { return error.code } }
      console.log(JSON.stringify(${JSON.stringify(names)}.map(name => code('spillway/' + name))))`
    writeFileSync(join(home, 'inside.cjs'), program)
    const refusals: string[] = JSON.parse(run(home, process.execPath, 'inside.cjs'))
    expect(refusals.filter(code => !['ERR_PACKAGE_PATH_NOT_EXPORTED', 'MODULE_NOT_FOUND'].includes(code))).toEqual([])
  })

  test('is at most 2.4 MB unpacked, and has no document but the README', () => {
    const files = readdirSync(installed(''), { recursive: true, withFileTypes: true }).filter(file => file.isFile())
    const bytes = files.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0)
    expect(bytes).toBeLessThanOrEqual(2_400_000)
    expect(
      files
        .filter(({ name }) => !/\.([cm]?js|d\.m?ts|json)$/.test(name))
        .map(({ name }) => name)
        .sort(),
    ).toEqual(['LICENSE', 'README.md'])
  })

  test('has no dependencies', () => {
    expect(readdirSync(join(home, 'node_modules')).filter(name => !name.startsWith('.'))).toEqual(['spillway'])
  })

  test('is one implementation: import and require give the same objects', () => {
    const program = `
      import { createRequire } from 'node:module'
      import * as imported from 'spillway'
      import { rateLimit } from 'spillway/express'
      import dropIn from 'spillway/express-rate-limit'
      const require = createRequire(import.meta.url)
      const required = require('spillway')
      const names = Object.keys(required)
      console.log(JSON.stringify([
        names.length > 10 && names.every(name => required[name] === imported[name]),
        require('spillway/express').rateLimit === rateLimit,
        require('spillway/express-rate-limit').MemoryStore === (await import('spillway/express-rate-limit')).MemoryStore,
        typeof dropIn({ limit: 1, store: new required.MemoryStore() }),
      ]))`
    writeFileSync(join(home, 'one.mjs'), program)
    expect(JSON.parse(run(home, process.execPath, 'one.mjs'))).toEqual([true, true, true, 'function'])
  })

  test('loads and limits by import', () => {
    const imports = Object.entries(NAMES).map(([name, path]) => `import * as ${name} from 'spillway${path}'\n`)
    writeFileSync(join(home, 'load.mjs'), imports.join('') + LOADED)
    expect(JSON.parse(run(home, process.execPath, 'load.mjs'))).toEqual(ANSWERS)
  })

  test('loads and limits by require', () => {
    const requires = Object.entries(NAMES).map(([name, path]) => `const ${name} = require('spillway${path}')\n`)
    writeFileSync(join(home, 'load.cjs'), requires.join('') + LOADED)
    expect(JSON.parse(run(home, process.execPath, 'load.cjs'))).toEqual(ANSWERS)
  })

  test.each(CALLED)('require of the drop-in for %s gives the function itself, with all names of the import', name => {
    const called = `const limit = require('spillway/${name}')\nconst made = typeof limit({ driver: 'memory', id: () => '', validate: false })`
    writeFileSync(join(home, 'call.cjs'), `${called}\nconsole.log(JSON.stringify([made, Object.keys(limit).sort()]))`)
    const names = `import * as names from 'spillway/${name}'\nconsole.log(JSON.stringify(Object.keys(names)))`
    writeFileSync(join(home, 'names.mjs'), names)
    const imported: string[] = JSON.parse(run(home, process.execPath, 'names.mjs'))
    expect(JSON.parse(run(home, process.execPath, 'call.cjs'))).toEqual(['function', imported.sort()])
  })

  test('has types for ES modules and CommonJS, without any framework installed', () => {
    typeCheck(['core', 'fetch', 'rate-limiter-flexible'], ['@types/node', 'undici-types'], { skipLibCheck: false })
  }, 60_000)

  test('has the types of its middleware if the frameworks are installed', () => {
    // The types of frameworks have errors of their own now and then.
    typeCheck(['core', 'express', 'express-rate-limit', 'koa', 'koa-ratelimit'], ['@types'], { skipLibCheck: true })
  }, 60_000)

  // From CommonJS, TypeScript 5.4 cannot import packages that have ES modules only: h3 2, and Nest from 12 on.
  test.each<[version: string, compiler: string, notRequired: readonly string[]]>([
    ['TypeScript 5.4', 'test/versions/node_modules/typescript54', ['h3', 'nest']],
    ['our own TypeScript', 'node_modules/typescript', []],
  ])(
    'has declarations that compile, each of them, beside all frameworks and clients, under %s',
    (_, compiler, notRequired) => {
      // Without skipLibCheck; what the types of other packages get wrong does not count.
      const names = Object.keys(JSON.parse(readFileSync(join(root, 'scripts/entries.json'), 'utf8')))
      const use = (name: string, index: number) => {
        const path = name === 'index' ? 'spillway' : `spillway/${name}`
        return `import * as entry${index} from '${path}'\nexport const names${index}: object = entry${index}\n`
      }
      const folder = userOfTypes(readdirSync(join(root, 'node_modules')).filter(name => name !== 'spillway'))
      writeFileSync(join(folder, 'all.mts'), names.map(use).join(''))
      const required = names.filter(name => !notRequired.includes(name))
      writeFileSync(join(folder, 'all.cts'), required.map(use).join(''))
      expect(compile(folder, {}, compiler).filter(line => /^(all|node_modules\/spillway\/)/.test(line))).toEqual([])
    },
    120_000,
  )

  test.each(['bottleneck', 'bottleneck/light'])(
    '%s has types of its own, none of them any',
    name => {
      const folder = userOfTypes(['@types/node', 'undici-types'])
      writeFileSync(join(folder, 'jobs.mts'), JOBS.replace('NAME', name))
      expect(compile(folder, {})).toEqual([])
    },
    60_000,
  )

  test('has a command that runs', () => {
    expect(run(home, join(home, 'node_modules/.bin/spillway'), '--help')).toContain('replay')
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    expect(run(home, join(home, 'node_modules/.bin/spillway'), '--version')).toContain(version)
  })

  /** A project in which the package is installed, beside packages of types from our own node_modules. */
  function userOfTypes(types: readonly string[]): string {
    const folder = mkdtempSync(join(home, 'types-'))
    const modules = join(folder, 'node_modules')
    // Not linked: a link is followed, and the types would then be sought where it leads.
    cpSync(installed(''), join(modules, 'spillway'), { recursive: true })
    for (const name of types) {
      mkdirSync(dirname(join(modules, name)), { recursive: true })
      symlinkSync(join(root, 'node_modules', name), join(modules, name))
    }
    return folder
  }

  /** The errors of a compiler, a line each. */
  function compile(folder: string, options: object, compiler = 'node_modules/typescript'): string[] {
    const base = { strict: true, noEmit: true, module: 'nodenext', target: 'es2022', lib: ['es2022'], types: ['node'] }
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions: { ...base, ...options } }))
    const { status, stdout } = spawnSync(process.execPath, [join(root, compiler, 'bin/tsc'), '-p', '.'], {
      cwd: folder,
      encoding: 'utf8',
    })
    const errors = stdout.split('\n').filter(line => line.includes('error TS'))
    // A compiler that did not run would find none.
    expect(status !== 0).toBe(errors.length > 0)
    return errors
  }

  /** Compiles what users write against what is installed. */
  function typeCheck(uses: (keyof typeof USE)[], types: string[], options: { skipLibCheck: boolean }): void {
    const folder = userOfTypes(types)
    for (const use of uses) {
      for (const kind of ['mts', 'cts']) writeFileSync(join(folder, `${use}.${kind}`), USE[use])
    }
    expect(compile(folder, options)).toEqual([])
  }
})
