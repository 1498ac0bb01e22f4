import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { root } from '../support/files.js'

// The rules of .dependency-cruiser.mjs, over small houses in which one thing is wrong.
let home: string
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'spillway-rings-'))
  for (const name of ['express', 'ioredis', 'prom-client', 'debounce']) {
    mkdirSync(join(home, 'node_modules', name), { recursive: true })
    writeFileSync(join(home, 'node_modules', name, 'index.js'), '')
  }
})
afterEach(() => rmSync(home, { recursive: true, force: true }))

type Files = Readonly<Record<string, string>>

/** What the rules say about these files of src/, if these imports are known to point outward. */
function complaints(files: Files, known: readonly (readonly [from: string, to: string, end: string])[] = []): string[] {
  for (const [name, text] of Object.entries(files)) {
    const file = join(home, 'src', name)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
  }
  const rules = `import { rulesOf } from '${join(root, '.dependency-cruiser.mjs')}'`
  writeFileSync(join(home, 'rules.mjs'), `${rules}\nexport default rulesOf(${JSON.stringify(known)}, '.')\n`)
  const program = join(root, 'node_modules/dependency-cruiser/bin/dependency-cruise.mjs')
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [program, 'src', '--config', 'rules.mjs', '--output-type', 'json'],
    { cwd: home, encoding: 'utf8' },
  )
  if (!stdout.startsWith('{')) throw new Error(`exit code ${status}: ${stdout}${stderr}`)
  const { violations } = JSON.parse(stdout).summary as {
    violations: { from: string; to: string; rule: { name: string } }[]
  }
  return violations
    .map(({ from, to, rule }) => `${rule.name}: ${from} → ${to}`.replace(/src\/|node_modules\/|\/index.js/g, ''))
    .sort()
}

const one = 'export const one = 1\n'
const takes = (file: string) => `import { one } from '${file}'\nexport const two = one\n`

test('a house in which every import points inward has no complaints', () => {
  const files = {
    'limiter/core/clock.ts': one,
    'limiter/limit.ts': takes('./core/clock.js'),
    'redis/keys.ts': takes('../limiter/limit.js'),
    'leases/seller.ts': takes('../redis/keys.js'),
    'waiting/semaphore/lease.ts': takes('../../redis/keys.js'),
    'http/places.ts': takes('../waiting/semaphore/lease.js'),
    'http/adapters/express.ts': `import type { Request } from 'express'\nexport type Asked = Request\n`,
    'operating/cli/main.ts': takes('../../http/places.js'),
    'index.ts': takes('./http/places.js'),
  }
  expect(complaints(files)).toEqual([])
}, 60_000)

test('each import that breaks a rule is found, and by which rule', () => {
  const files = {
    'limiter/first.ts': takes('../http/first.js'),
    'http/first.ts': one,
    // Types count as well.
    'limiter/shape.ts': `import type { one } from '../http/shape.js'\nexport type Shape = typeof one\n`,
    'http/shape.ts': one,
    'limiter/inner-shape.ts': `export type Shape = typeof import('../http/inner-shape.js').one\n`,
    'http/inner-shape.ts': one,
    'redis/neighbour.ts': takes('../sql/neighbour.js'),
    'sql/neighbour.ts': one,
    'http/not-lent.ts': takes('../waiting/queue/not-lent.js'),
    'waiting/queue/not-lent.ts': one,
    'operating/live/room.ts': takes('../cli/room.js'),
    'operating/cli/room.ts': one,
    'limiter/attic.ts': takes('../attic/box.js'),
    'attic/box.ts': one,
    'limiter/name.ts': takes('./redis-helpers.js'),
    'limiter/redis-helpers.ts': one,
    'limiter/circle.ts': takes('./other-half.js'),
    'limiter/other-half.ts': takes('./circle.js'),
    'http/adapters/framework.ts': `import express from 'express'\nexport const app = express()\n`,
    'redis/client.ts': `import type { Redis } from 'ioredis'\nexport type Client = Redis\n`,
    'limiter/package.ts': `import debounce from 'debounce'\nexport const late = debounce()\n`,
    'limiter/peer.ts': `import { Counter } from 'prom-client'\nexport const counter = new Counter()\n`,
    'operating/cli/page/disk.ts': `import { readFileSync } from 'node:fs'\nexport const text = readFileSync('a')\n`,
    'operating/cli/shown.ts': takes('./page/shown.js'),
    'operating/cli/page/shown.ts': one,
  }
  expect(complaints(files)).toEqual([
    'another-room: operating/live/room.ts → operating/cli/room.ts',
    'cycle: limiter/circle.ts → limiter/other-half.ts',
    'empty-name: limiter/name.ts → limiter/redis-helpers.ts',
    'framework-at-run-time: http/adapters/framework.ts → express',
    'framework-elsewhere: redis/client.ts → ioredis',
    'no-place: limiter/attic.ts → attic/box.ts',
    'node-in-a-page: operating/cli/page/disk.ts → fs',
    'other-package: limiter/package.ts → debounce',
    'outward: http/not-lent.ts → waiting/queue/not-lent.ts',
    'outward: limiter/attic.ts → attic/box.ts',
    'outward: limiter/first.ts → http/first.ts',
    'outward: limiter/inner-shape.ts → http/inner-shape.ts',
    'outward: limiter/shape.ts → http/shape.ts',
    'outward: redis/neighbour.ts → sql/neighbour.ts',
    'page-at-run-time: operating/cli/shown.ts → operating/cli/page/shown.ts',
    'peer-elsewhere: limiter/peer.ts → prom-client',
  ])
}, 60_000)

test('what is known to point outward is excused, and nothing else of the same file', () => {
  const files = {
    'limiter/a.ts': `${takes('../http/b.js')}export { one } from '../http/c.js'\n`,
    'http/b.ts': one,
    'http/c.ts': one,
  }
  expect(complaints(files, [['src/limiter/a.ts', 'src/http/b.ts', 'part 0']])).toEqual([
    'outward: limiter/a.ts → http/c.ts',
  ])
}, 60_000)

test('what is known to point outward and does so no longer is found, also when its file is gone', () => {
  const known = [['src/limiter/a.ts', 'src/http/b.ts', 'part 0']] as const
  expect(() => complaints({ 'limiter/a.ts': one }, known)).toThrow('KNOWN names files that are gone: src/http/b.ts')
  expect(complaints({ 'http/b.ts': one }, known)).toEqual(['no-longer-needed: limiter/a.ts → limiter/a.ts'])
}, 60_000)
