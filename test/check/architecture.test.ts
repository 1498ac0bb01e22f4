import { readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { filesOf, root } from './files.js'
import { complaint, cycleIn, FLOORS, roomOf } from './floors.js'
import { importsOf } from './house.js'

const CLIENTS = /^(express|fastify|hono|koa|ioredis|redis|ws)(\/|$)/
const NO_NOUNS = /^(utils?|helpers?|types?|common|manager|base)$/

/** Entry points that load an optional peer, and no other. */
const PEERS_OF: Readonly<Record<string, string>> = {
  'src/http/adapters/nest.ts': '@nestjs/common',
  'src/operating/observing/prometheus.ts': 'prom-client',
  'src/operating/observing/opentelemetry.ts': '@opentelemetry/api',
}

/** What is made for a browser: see scripts/embed-page.mjs. */
const PAGE = /^src\/.*\/page\//
const PAGE_LIBRARIES = /^preact(\/|$)/

const files = [...filesOf('src', '.ts'), ...filesOf('src', '.tsx')]
const textOf = (file: string) => readFileSync(join(root, file), 'utf8')
const imports = files.flatMap(file => importsOf(file, textOf(file)))
const inside = imports.filter(({ to }) => to.startsWith('src/') || to.startsWith('.') || to.includes('/src/'))
const outside = imports.filter(entry => !inside.includes(entry))

describe('the house', () => {
  test('every file of src has a floor', () => {
    expect(files.length).toBeGreaterThan(10)
    expect(files.filter(file => !roomOf(file))).toEqual([])
  })

  test('a file imports from lower floors or from its own folder', () => {
    expect(inside.map(({ from, to }) => complaint(from, to)).filter(Boolean)).toEqual([])
  })

  test('every imported file exists', () => {
    const exists = (file: string) => files.includes(file) || files.includes(file.replace(/\.ts$/, '.tsx'))
    expect(inside.filter(({ to }) => !exists(to))).toEqual([])
  })

  test('no imports form a circle', () => {
    const graph = new Map(files.map(file => [file, inside.filter(({ from }) => from === file).map(({ to }) => to)]))
    expect(cycleIn(graph)).toBeUndefined()
  })

  test('frameworks and clients are imported as types only, and by adapters only', () => {
    const clients = outside.filter(({ to }) => CLIENTS.test(to))
    expect(clients.filter(({ typeOnly }) => !typeOnly)).toEqual([])
    expect(
      clients.filter(
        ({ from }) => !/^src\/(adapters|express-rate-limit|koa-ratelimit|rate-limiter-flexible)\//.test(from),
      ),
    ).toEqual([])
  })

  test('only Node is imported from outside, except by pages, which are bundled, and by entry points for an optional peer', () => {
    const others = outside.filter(({ to }) => !CLIENTS.test(to) && !to.startsWith('node:'))
    const unasked = others.filter(({ from, to }) => PEERS_OF[from] !== to)
    expect(unasked.filter(({ from, to }) => !(PAGE.test(from) && PAGE_LIBRARIES.test(to)))).toEqual([])
    // Other entry points must work without the peer.
    expect(inside.filter(({ from, to }) => to in PEERS_OF && from !== to)).toEqual([])
  })

  test('a page imports no file that needs Node, and other files import pages as types only', () => {
    const pages = imports.filter(({ from }) => PAGE.test(from))
    expect(pages.length).toBeGreaterThan(0)
    const graph = new Map(files.map(file => [file, imports.filter(({ from, typeOnly }) => from === file && !typeOnly)]))
    const reached = new Set<string>()
    const walk = (file: string): void => {
      if (reached.has(file)) return
      reached.add(file)
      for (const { to } of graph.get(file) ?? graph.get(file.replace(/\.ts$/, '.tsx')) ?? []) walk(to)
    }
    for (const { from } of pages) walk(from)
    expect([...reached].filter(name => name.startsWith('node:'))).toEqual([])
    expect(inside.filter(({ from, to, typeOnly }) => PAGE.test(to) && !PAGE.test(from) && !typeOnly)).toEqual([])
  })

  test('no file is longer than 450 lines, except the generated one', () => {
    const long = files.filter(file => file !== 'src/redis/scripts.ts' && textOf(file).split('\n').length > 451)
    expect(long).toEqual([])
  })

  test('src has at most 21 folders, on at most 9 floors, and two files', () => {
    const top = [...new Set(files.map(file => file.split('/')[1]))]
    expect(top.filter(name => name.endsWith('.ts')).sort()).toEqual(['index.ts', 'testing.ts'])
    expect(top.length - 2).toBeLessThanOrEqual(21)
    expect(new Set(FLOORS.map(([floor]) => floor)).size).toBeLessThanOrEqual(9)
  })

  test('no file or folder has an empty name like utils, helpers or common', () => {
    const names = new Set(
      files.flatMap(file => [...file.split('/').slice(1, -1), basename(file).replace(/\.tsx?$/, '')]),
    )
    expect([...names].filter(name => name.split('-').some(word => NO_NOUNS.test(word)))).toEqual([])
  })
})

describe('these checks', () => {
  test('every room of the table is named once', () => {
    const rooms = FLOORS.flatMap(([, ...names]) => names)
    expect(new Set(rooms).size).toBe(rooms.length)
  })

  test('find an import in every form', () => {
    const text = `
      import a from './a.js'
      import type { B } from '../b.js'
      import { type C, type D } from './c.js'
      import { type E, f } from './e.js'
      export * from './g.js'
      export { type H } from './h.js'
      import './i.js'
      const j = await import('./j.js')
      type K = import('./k.js').K
      const l = require('express')
      import m = require('./m.js')
      declare module 'koa' {}
      // import n from './n.js'
      const o = "import p from './p.js'"
    `
    const seen = importsOf('src/x/file.ts', text).map(({ to, typeOnly }) => [to, typeOnly])
    expect(seen).toEqual([
      ['src/x/a.ts', false],
      ['src/b.ts', true],
      ['src/x/c.ts', true],
      ['src/x/e.ts', false],
      ['src/x/g.ts', false],
      ['src/x/h.ts', true],
      ['src/x/i.ts', false],
      ['src/x/j.ts', false],
      ['src/x/k.ts', true],
      ['express', false],
      ['src/x/m.ts', false],
      ['koa', true],
    ])
  })

  test('distinguish imports upward, downward and sideways', () => {
    expect(complaint('src/limiter/key.ts', 'src/limiter/core/errors.ts')).toBeUndefined()
    expect(complaint('src/http/exchange.ts', 'src/http/headers.ts')).toBeUndefined()
    expect(complaint('src/limiter/core/errors.ts', 'src/limiter/key.ts')).toBe(
      'src/limiter/core/errors.ts imports upward: src/limiter/key.ts',
    )
    expect(complaint('src/redis/keys.ts', 'src/limiter/algorithms/registry.ts')).toBe(
      'src/redis/keys.ts imports sideways: src/limiter/algorithms/registry.ts',
    )
    expect(complaint('src/waiting/semaphore/semaphore.ts', 'src/http/headers.ts')).toMatch('upward')
    expect(complaint('src/limiter/key.ts', 'src/waiting/semaphore/lease.ts')).toMatch('sideways')
    expect(complaint('src/http/headers.ts', 'test/support/random.ts')).toMatch('not in src/')
    expect(complaint('src/new-room/x.ts', 'src/limiter/core/errors.ts')).toMatch('no floor')
  })

  test('find a circle of any length', () => {
    const graph = (...edges: [string, string[]][]) => new Map(edges)
    expect(cycleIn(graph(['a', ['b', 'c']], ['b', ['d']], ['c', ['d']], ['d', []]))).toBeUndefined()
    expect(cycleIn(graph(['a', ['b']], ['b', ['c']], ['c', ['b']]))).toEqual(['b', 'c', 'b'])
    expect(cycleIn(graph(['a', ['a']]))).toEqual(['a', 'a'])
  })
})
