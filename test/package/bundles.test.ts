import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { root } from '../support/files.js'
import { bundled, runOnWeb } from './bundling.js'

/** What a user has written. A program without Redis has nothing of it: no script, no client, no waiting line. */
const PROGRAMS = {
  'spillway/express': `import { rateLimit } from 'spillway/express'\nconsole.log(rateLimit({ policy: '1/1m' }))`,
  'spillway/koa': `import { rateLimit } from 'spillway/koa'\nconsole.log(rateLimit({ policy: '1/1m' }))`,
  'spillway/fetch': `import { rateLimit } from 'spillway/fetch'\nconsole.log(rateLimit({ policy: '1/1m' }))`,
  RateLimiter: `import { RateLimiter } from 'spillway'\nconsole.log(new RateLimiter({ policy: '1/1m' }))`,
}
const OF_REDIS = /^dist\/esm\/src\/(redis\/(?!client|keys)|waiting\/)/

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

  test.each(Object.entries(PROGRAMS))('%s without Redis has nothing of it', async (_, program) => {
    const { files } = await bundled(program, { platform: 'node', format: 'esm' })
    expect(files.length).toBeGreaterThan(1)
    expect(files.filter(file => OF_REDIS.test(file))).toEqual([])
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
      const core = await bundled(PROGRAMS.RateLimiter, { ...options, platform: 'browser' })
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

  test('rolldown leaves out what esbuild does', async () => {
    writeFileSync(join(home, 'program.mjs'), PROGRAMS['spillway/fetch'])
    const rolldown = join(root, 'node_modules/rolldown/bin/cli.mjs')
    node(home, rolldown, 'program.mjs', '--file', 'rolled.mjs', '--format', 'es', '--platform', 'node', '--minify')
    const rolled = readFileSync(join(home, 'rolled.mjs'), 'utf8')
    const { code } = await bundled(PROGRAMS['spillway/fetch'], { platform: 'node', format: 'esm', minify: true })
    expect(rolled).not.toMatch(/from\s*["']node:/)
    expect(rolled.length).toBeLessThan(1.01 * code.length)
  })
})
