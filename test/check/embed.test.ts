import { type SpawnSyncReturns, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { LuaScript, type Script } from '../../src/redis/script.js'
import { root } from './files.js'

describe('embedding Lua', () => {
  let folder: string
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'spillway-embed-'))
  })
  afterEach(() => rmSync(folder, { recursive: true }))

  const run = (...args: string[]): SpawnSyncReturns<string> =>
    spawnSync(process.execPath, ['--import', 'tsx', join(root, 'scripts/embed-lua.ts'), ...args], {
      encoding: 'utf8',
      cwd: root,
    })

  const write = (files: Record<string, string>) => {
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, 'lua', name)), { recursive: true })
      writeFileSync(join(folder, 'lua', name), text)
    }
  }

  /** The module as it would be loaded: identifier → script. */
  const embedded = (files: Record<string, string>): Record<string, Script> => {
    write(files)
    const { status, stderr } = run(folder)
    expect([status, stderr]).toEqual([0, ''])
    const module = readFileSync(join(folder, 'src/redis/scripts.ts'), 'utf8')
    const code = module.replace(/^import .*$/m, '').replace(/export const (\w+) =/g, 'exports.$1 =')
    const exports = {}
    new Function('exports', 'LuaScript', code)(exports, LuaScript)
    return exports
  }

  test('gives each script its name, its source and the SHA-1 of the source', () => {
    const { consumeAll } = embedded({ 'consume_all.lua': '--[[ head ]]\nreturn 1\n' })
    const sha1 = createHash('sha1').update('return 1').digest('hex')
    expect([consumeAll.name, consumeAll.sha1, consumeAll.source]).toEqual(['consume_all', sha1, 'return 1'])
  })

  test('includes each fragment once, after those that it needs itself', () => {
    const { a } = embedded({
      'a.lua': '-- @include two\n-- @include one\nreturn two()\n',
      'lib/one.lua': '-- First.\nlocal function one() return 1 end\n',
      'lib/two.lua': '-- Second.\n-- @include one\nlocal function two() return one() + one() end\n',
    })
    expect(a.source).toBe(
      'local function one() return 1 end\nlocal function two() return one() + one() end\nreturn two()',
    )
  })

  test('puts a step in the place that another step marks', () => {
    const { a } = embedded({
      'a.lua': '-- @include one\n-- @include steps/each with steps/double\nreturn x\n',
      'lib/one.lua': '-- First.\nlocal function one() return 1 end\n',
      'steps/each.lua': '-- A loop.\nlocal x = one()\nfor i = 1, 3 do\n  -- @here\nend\n',
      'steps/double.lua': '-- A body.\nx = 2 * x\n',
    })
    expect(a.source).toBe(
      'local function one() return 1 end\nlocal x = one()\nfor i = 1, 3 do\nx = 2 * x\nend\nreturn x',
    )
  })

  test('puts sections of an algorithm in the places that a step marks', () => {
    const { a } = embedded({
      'a.lua': '-- @include steps/both with algorithms/quick\nreturn x\n',
      'steps/both.lua': '-- Both.\nlocal x\n-- @here set\nfor i = 1, 3 do\n  -- @here raise\nend\n',
      'algorithms/quick.lua': '-- @section raise\nx = x + 1\n-- @section set\nx = 2\n',
    })
    expect(a.source).toBe('local x\nx = 2\nfor i = 1, 3 do\nx = x + 1\nend\nreturn x')
  })

  test('combines a section of all algorithms into one, by the name of the algorithm', () => {
    const { a } = embedded({
      'a.lua': 'local algorithm, x = ARGV[1], 0\n-- @choose set\nreturn x\n',
      'lib/one.lua': '-- First.\nlocal function one() return 1 end\n',
      'algorithms/slow_start.lua':
        '-- Head.\n-- @section set\n-- @include one\nx = one()\n-- @section consume\nreturn 1\n',
      'algorithms/quick.lua': '-- @section set\n-- @include one\nx = 2 * one()\n',
    })
    const one = 'local function one() return 1 end'
    expect(a.source.split('\n')).toEqual([
      'local algorithm, x = ARGV[1], 0',
      "if algorithm == 'quick' then",
      one,
      'x = 2 * one()',
      "elseif algorithm == 'slow-start' then",
      one,
      'x = one()',
      'end',
      'return x',
    ])
  })

  test('names the script of each algorithm after it', () => {
    const { consumeOne } = embedded({
      'algorithms/slow_start.lua':
        '-- @section consume\n-- @include steps/twice with algorithms/slow_start.measure\n-- @section measure\nx = 1\n',
      'steps/twice.lua': '-- Twice.\n-- @here\n-- @here\n',
    }) as unknown as { consumeOne: Record<string, Script> }
    expect(consumeOne['slow-start'].source).toBe('x = 1\nx = 1')
  })

  test('leaves comments, indentation and blank lines out, and strings alone', () => {
    const lua = [
      '--[[ head: it\'s "here" ]]',
      "local a = 'a -- no comment' -- a comment, isn't it",
      'local b = "\\" --[[ no comment ]]"',
      '',
      '  local c = [[ long',
      '    -- no comment ]]',
      'local d = a[b[1]] - -1 --[==[ ]] long',
      ']==] - 2',
    ]
    expect(embedded({ 'a.lua': lua.join('\n') }).a.source.split('\n')).toEqual([
      "local a = 'a -- no comment'",
      'local b = "\\" --[[ no comment ]]"',
      'local c = [[ long',
      '    -- no comment ]]',
      'local d = a[b[1]] - -1   - 2',
    ])
  })

  test('escapes characters with a meaning in template literals', () => {
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it stands in a string so that it must be escaped
    const lua = 'return "`${x}\\n$"'
    expect(embedded({ 'a.lua': lua }).a.source).toBe(lua)
  })

  test('says in one line which file includes a missing file, or itself', () => {
    write({ 'a.lua': '-- @include gone\n' })
    expect(run(folder).stderr).toBe('embed-lua: lua/a.lua includes lua/lib/gone.lua, which does not exist\n')
    write({ 'lib/gone.lua': '-- @include here\n', 'lib/here.lua': '-- @include gone\n' })
    const { status, stderr } = run(folder)
    expect([status, stderr.match(/\n/g)]).toEqual([1, ['\n']])
    expect(stderr).toContain('a → lib/gone → lib/here → lib/gone')
  })
})
