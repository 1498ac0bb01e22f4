import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { root } from '../support/files.js'
import { bundled, runOnWeb } from './bundling.js'

/**
 * [what a user has written, at most so many bytes]. A program without Redis has nothing of it: no script, no client, no
 * waiting line.
 */
const PROGRAMS: Readonly<Record<string, readonly [program: string, most: number]>> = {
  'spillway/express': [
    `import { rateLimit } from 'spillway/express'\nconsole.log(rateLimit({ policy: '1/1m' }))`,
    136_500,
  ],
  'spillway/koa': [`import { rateLimit } from 'spillway/koa'\nconsole.log(rateLimit({ policy: '1/1m' }))`, 136_500],
  'spillway/fetch': [`import { rateLimit } from 'spillway/fetch'\nconsole.log(rateLimit({ policy: '1/1m' }))`, 136_500],
  RateLimiter: [`import { RateLimiter } from 'spillway'\nconsole.log(new RateLimiter({ policy: '1/1m' }))`, 84_500],
  'RateLimiter, RedisStore': [
    `import { RateLimiter, RedisStore } from 'spillway'\nconsole.log(c => new RateLimiter({ policy: '1/1m', store: new RedisStore(c) }))`,
    189_000,
  ],
  PolicyError: [`import { PolicyError } from 'spillway'\nconsole.log(PolicyError)`, 1000],
}
/** Each entry point with all its names, at most so many kB. */
const WHOLE: Readonly<Record<string, number>> = {
  index: 280,
  adaptive: 122,
  alerts: 24,
  dashboard: 415,
  express: 285,
  'express-rate-limit': 221,
  fastify: 287,
  fetch: 140,
  hono: 287,
  koa: 285,
  bottleneck: 75,
  'bottleneck/light': 26,
  'koa-ratelimit': 24,
  live: 58,
  nest: 146,
  node: 284,
  opentelemetry: 15,
  outgoing: 133,
  postgres: 72,
  prometheus: 16,
  'rate-limiter-flexible': 38,
  sqlite: 64,
  testing: 2,
  ws: 90,
}
const PEERS = Object.keys(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).peerDependencies)
const OF_REDIS = /^dist\/esm\/src\/(stores\/redis|redis\/(?!client|keys)|waiting\/(line|mailbox|waiting))/

/** Two requests to a function from Request to Response. */
const ON_EDGE = `
  import { rateLimit } from 'spillway/fetch'
  const limit = rateLimit({ policy: '1/1m' })
  const ask = async () => {
    const { refusal, apply } = await limit(new Request('https://service.example/'), { address: '192.0.2.1' })
    return (refusal ?? apply(new Response('hello'))).status
  }
  globalThis.answer = (async () => JSON.stringify([await ask(), await ask()]))()`

/** Runs a program of Node to its end and gives what it printed. */
function node(cwd: string, ...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd, encoding: 'utf8' })
  if (status === 0) return stdout
  throw new Error(`${args.join(' ')}: exit code ${status}\n${stdout}${stderr}`)
}

describe('bundled with a program', () => {
  let home: string

  beforeAll(() => {
    node(root, 'scripts/build.mjs')
    home = mkdtempSync(join(tmpdir(), 'spillway-bundles-'))
    mkdirSync(join(home, 'node_modules'))
    symlinkSync(join(root, 'node_modules/express'), join(home, 'node_modules/express'))
    symlinkSync(root, join(home, 'node_modules/spillway'))
  }, 60_000)

  afterAll(() => rmSync(home, { recursive: true, force: true }))

  /** What a bundle prints when Node runs it. */
  const started = (code: string): unknown => {
    writeFileSync(join(home, 'bundle.mjs'), code)
    return JSON.parse(node(home, 'bundle.mjs'))
  }

  test('only what is used is there', async () => {
    const rows = []
    for (const [name, [program, most]] of Object.entries(PROGRAMS)) {
      const bundle = await bundled(program, { platform: 'node', format: 'esm', minify: true })
      rows.push({ name, bytes: bundle.bytes, most, files: bundle.files.length })
      expect([name, bundle.bytes <= most || bundle.bytes]).toEqual([name, true])
      if (!name.includes('Redis')) expect(bundle.files.filter(file => OF_REDIS.test(file))).toEqual([])
    }
    const table = rows.map(({ name, bytes, most, files }) =>
      [name.padEnd(24), `${bytes}`.padStart(8), `of ${most}`.padStart(10), `${files} files`.padStart(10)].join(' '),
    )
    process.stdout.write(`esbuild, minified, for Node as an ES module, bytes:\n${table.join('\n')}\n`)
  })

  test('each entry point keeps to its size, also when all of it is used', async () => {
    const entries = Object.keys(JSON.parse(readFileSync(join(root, 'scripts/entries.json'), 'utf8')))
    expect(Object.keys(WHOLE).sort()).toEqual(entries.sort())
    const tooLarge = []
    for (const [entry, most] of Object.entries(WHOLE)) {
      const program = `import * as all from '${entry === 'index' ? 'spillway' : `spillway/${entry}`}'\nconsole.log(all)`
      const { bytes } = await bundled(program, { platform: 'node', format: 'esm', minify: true, external: PEERS })
      if (bytes > most * 1000) tooLarge.push([entry, bytes])
    }
    expect(tooLarge).toEqual([])
  })

  test('as an ES module for Node it answers 200, then 429', async () => {
    const program = `
      import express from 'express'
      import { rateLimit } from 'spillway/express'
      const server = express().use(rateLimit({ policy: '1/1m' })).get('/', (req, res) => void res.end()).listen(0, async () => {
        const ask = async () => (await fetch('http://127.0.0.1:' + server.address().port + '/')).status
        console.log(JSON.stringify([await ask(), await ask()]))
        server.close()
      })`
    const { code } = await bundled(program, { platform: 'node', format: 'esm', external: ['express'] })
    expect(started(code)).toEqual([200, 429])
  })

  test('as an ES module for Node it has the scripts of Redis as the sources have them', async () => {
    const program = `
      import { createHash } from 'node:crypto'
      import * as scripts from './dist/esm/src/redis/scripts.js'
      const all = Object.values(scripts).flatMap(script => (script.source === undefined ? Object.values(script) : [script]))
      const wrong = all.filter(({ sha1, source }) => createHash('sha1').update(source).digest('hex') !== sha1)
      console.log(JSON.stringify([all.length > 50, wrong.map(({ name }) => name)]))`
    const { code } = await bundled(program, { platform: 'node', format: 'esm' })
    expect(started(code)).toEqual([true, []])
  })

  test.each(['module', 'workerd', 'worker', 'edge-light'])(
    'under the condition %s it imports nothing of Node, and limits',
    async condition => {
      const options = { platform: 'neutral' as const, conditions: [condition], format: 'esm' as const }
      expect(await bundled(ON_EDGE, options)).toMatchObject({ imports: [] })
      const { code } = await bundled(ON_EDGE, { ...options, format: 'iife' })
      expect(await runOnWeb(code)).toEqual([200, 429])
      // The entry point `spillway` has RedisStore, too, which does need Node.
      const core = await bundled(PROGRAMS.RateLimiter[0], { ...options, platform: 'browser' })
      expect([core.imports, core.files.filter(file => OF_REDIS.test(file))]).toEqual([[], []])
    },
  )

  test('it is one copy, however its parts are imported and required', async () => {
    const program = `
      import { PolicyError } from 'spillway'
      import { rateLimit } from 'spillway/fetch'
      const koa = require('spillway/koa')
      const thrown = make => { try { make() } catch (error) { return error instanceof PolicyError } }
      console.log(JSON.stringify([
        thrown(() => rateLimit({ policy: 'nonsense' })),
        thrown(() => koa.rateLimit({ policy: 'nonsense' })),
        require('spillway').PolicyError === PolicyError,
      ]))`
    for (const conditions of [undefined, ['worker']]) {
      const { code } = await bundled(program, { platform: 'node', format: 'esm', conditions })
      expect(started(code)).toEqual([true, true, true])
    }
  })

  test('rolldown leaves out what esbuild does', () => {
    writeFileSync(join(home, 'program.mjs'), PROGRAMS['spillway/fetch'][0])
    const rolldown = join(root, 'node_modules/rolldown/bin/cli.mjs')
    node(home, rolldown, 'program.mjs', '--file', 'rolled.mjs', '--format', 'es', '--platform', 'node', '--minify')
    const code = readFileSync(join(home, 'rolled.mjs'), 'utf8')
    expect(code).not.toMatch(/from\s*["']node:/)
    expect(code.length).toBeLessThanOrEqual(136_500)
  })
})
