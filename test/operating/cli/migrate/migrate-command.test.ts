import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { PassThrough } from 'node:stream'
import { afterAll, beforeEach, expect, jest, test } from '@jest/globals'
import { readArguments, type Terminal } from '../../../../src/operating/cli/arguments.js'
import { migrateCommand } from '../../../../src/operating/cli/migrate/migrate-command.js'
import { replaceFile } from '../../../../src/operating/cli/migrate/project-files.js'
import { spawnSpillway } from '../spawn-spillway.js'

// The first test bundles the command, on a machine that may be busy.
jest.setTimeout(60_000)

const FILES: Readonly<Record<string, string>> = {
  'package.json': '{ "dependencies": { "express-rate-limit": "^8.1.0" }, "devDependencies": { "bottleneck": "2" } }',
  'src/app.ts': `import rateLimit from 'express-rate-limit'\n\napp.use(rateLimit({ windowMs: 60_000, limit: 100, keyGenerator }))\n`,
  'src/plugin.mjs': `import limit from '@fastify/rate-limit'\napp.register(limit, { max: 2 })\n`,
  'node_modules/a/index.js': `require('bottleneck')\n`,
  'dist/app.js': `require('express-rate-limit')\n`,
  '.git/hook.js': `require('bottleneck')\n`,
}
const REPORT = `src/app.ts
    1  import rateLimit from 'express-rate-limit'
       would be rewritten: 'express-rate-limit' → 'spillway/express-rate-limit'
       options: windowMs (policy), limit (policy), keyGenerator (key)

src/plugin.mjs
    1  import limit from '@fastify/rate-limit'
       by hand: there is no drop-in
       options: max (policy)
`

const root = mkdtempSync(join(tmpdir(), 'spillway-migrate-'))
afterAll(() => rmSync(root, { recursive: true }))
let folders = 0
let cwd: string

beforeEach(() => {
  cwd = join(root, String(folders++))
  for (const [name, text] of Object.entries(FILES)) {
    mkdirSync(dirname(join(cwd, name)), { recursive: true })
    writeFileSync(join(cwd, name), text)
  }
})

const texts = () => Object.fromEntries(Object.keys(FILES).map(name => [name, readFileSync(join(cwd, name), 'utf8')]))

test('a dry run reports every use and changes nothing', async () => {
  const { exitCode, stdout, stderr } = await spawnSpillway(['migrate'], { cwd })
  expect([exitCode, stderr]).toEqual([0, ''])
  expect(stdout.slice(0, REPORT.length)).toBe(REPORT)
  expect(stdout).toContain('express-rate-limit ^8.1.0: 1 use\n  drop-in: spillway/express-rate-limit, for version 8\n')
  expect(stdout).toContain('bottleneck 2: 0 uses\n')
  expect(stdout).toContain('@fastify/rate-limit: 1 use\n  no drop-in\n')
  expect(stdout).toMatch(/\n1 import can be rewritten, 1 by hand\. Nothing was changed: --write does it\./)
  expect(texts()).toEqual(FILES)
})

test('--write rewrites the imports that have a drop-in, keeps the mode, leaves nothing behind, and finds nothing again', async () => {
  chmodSync(join(cwd, 'src/app.ts'), 0o755)
  const first = await spawnSpillway(['migrate', '--write', '.'], { cwd })
  expect([first.exitCode, first.stderr]).toEqual([0, ''])
  expect(first.stdout).toContain('       rewritten: ')
  const app = FILES['src/app.ts'].replace("'express", "'spillway/express")
  expect(texts()).toEqual({ ...FILES, 'src/app.ts': app })
  expect(statSync(join(cwd, 'src/app.ts')).mode & 0o777).toBe(0o755)
  expect(readdirSync(join(cwd, 'src'))).toEqual(['app.ts', 'plugin.mjs'])
  const second = await spawnSpillway(['migrate', '--write', 'src/app.ts'], { cwd })
  expect(second).toEqual({ exitCode: 0, stderr: '', stdout: expect.stringMatching(/^No use of .* was found\.\n$/) })
})

test('a file that cannot be read as text is named, and the others are done: exit code 1', async () => {
  writeFileSync(join(cwd, 'src/broken.js'), Buffer.from([0x2f, 0x2f, 0xff, 0x0a]))
  symlinkSync(join(cwd, 'src'), join(cwd, 'src/again'))
  const { exitCode, stdout, stderr } = await spawnSpillway(['migrate', '--write'], { cwd })
  expect([exitCode, stderr]).toEqual([1, 'spillway migrate: src/broken.js: it is not UTF-8; it is left as it is\n'])
  expect(stdout).toContain('1 import rewritten')
})

test.each([
  [['src', 'test'], 2, 'given "src" "test", expected one file or folder, like: spillway migrate --write src'],
  [['--wirte'], 2, 'unknown option "--wirte", expected one of --write, --help, like --write'],
  [['nowhere'], 1, /^spillway migrate: cannot read "nowhere": ENOENT.*\n$/],
])('%j ends with %i and one line', async (args, exitCode, message) => {
  const expected = typeof message === 'string' ? `spillway migrate: ${message}\n` : expect.stringMatching(message)
  expect(await spawnSpillway(['migrate', ...args], { cwd })).toEqual({ exitCode, stdout: '', stderr: expected })
})

test('a file that has changed since it was read is left as it is', async () => {
  const file = join(cwd, 'src/app.ts')
  await expect(replaceFile(file, 'older text', 'newer text')).rejects.toThrow('it has changed meanwhile')
  expect(texts()).toEqual(FILES)
  expect(readdirSync(join(cwd, 'src'))).toEqual(['app.ts', 'plugin.mjs'])
})

test('Ctrl-C says that what was found is what was found so far', async () => {
  const toldOf = async (interrupt: AbortController) => {
    let text = ''
    const stdout = new PassThrough().on('data', block => {
      text += block
      interrupt.abort()
    })
    const terminal = { ...process, stdout } as unknown as Terminal
    const given = readArguments([join(cwd, 'src')], migrateCommand.options)
    return [await migrateCommand.run(given, terminal, interrupt.signal), text]
  }
  expect(await toldOf(new AbortController())).toEqual([
    130,
    expect.stringContaining('\nSo far 1 import can be rewritten, 0 by hand.'),
  ])
  const atOnce = new AbortController()
  atOnce.abort()
  expect(await toldOf(atOnce)).toEqual([130, expect.stringMatching(/^No use of .* was found so far\.\n$/)])
})
