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

  test('takes each global function of a file of scripts for a script', () => {
    const scripts = embedded({
      'numbers.lua':
        'local function one() return 1 end\n-- Gives one.\nfunction get_one()\n  return one()\nend\nfunction get_two()\n  return 2\nend\n',
    })
    expect(scripts.getOne.source).toBe('local function one() return 1 end\nreturn one()')
    expect(scripts.getTwo.source).toBe('return 2')
  })

  test('gives a script the functions that it names, each once, after those that they need', () => {
    const { a } = embedded({
      'a.lua': 'local x = two()\nreturn x + one()\n',
      'lib/numbers.lua':
        '-- Two.\nlocal function two() return one() + one() end\n-- One.\nlocal function one() return FIRST end\nlocal FIRST = 1\n',
      'b.lua': 'return 3\n',
    })
    expect(a.source.split('\n')).toEqual([
      'local FIRST = 1',
      'local function one() return FIRST end',
      'local function two() return one() + one() end',
      'local x = two()',
      'return x + one()',
    ])
  })

  test('makes a function only where it is needed, but not again and again', () => {
    const one = 'local function one() return 1 end'
    const { a } = embedded({
      'lib/one.lua': `${one}\n`,
      'lib/two.lua': 'local function two() return 2 end\n',
      'lib/three.lua': 'local function three() return 3 end\n',
      'a.lua': [
        'local x = 0',
        "if ARGV[1] == 'one' then",
        '  if ARGV[2] then',
        '    return two()',
        '  elseif one() == 1 then',
        '    for i = 1, 2 do',
        '      if i == x then',
        '        x = x + three()',
        '      end',
        '    end',
        '  end',
        'end',
        'return x',
      ].join('\n'),
    })
    expect(a.source.split('\n')).toEqual([
      'local x = 0',
      "if ARGV[1] == 'one' then",
      one,
      'if ARGV[2] then',
      'local function two() return 2 end',
      'return two()',
      'elseif one() == 1 then',
      'local function three() return 3 end',
      'for i = 1, 2 do',
      'if i == x then',
      'x = x + three()',
      'end',
      'end',
      'end',
      'end',
      'return x',
    ])
  })

  test('inlines a piece with the functions that it needs', () => {
    const { a } = embedded({
      'a.lua': 'local x = 0\nfor i = 1, 3 do\n  -- @inline steps.raise\nend\nreturn x\n',
      'lib/steps.lua': '-- Adds to x.\nfunction raise()\n  x = x + one()\nend\nlocal function one() return 1 end\n',
    })
    expect(a.source).toBe(
      'local x = 0\nlocal function one() return 1 end\nfor i = 1, 3 do\nx = x + one()\nend\nreturn x',
    )
  })

  test('chooses a piece by the name of the algorithm; within a function, its functions are made when it is chosen', () => {
    const one = 'local function one() return 1 end'
    const { a, b } = embedded({
      'a.lua': 'local algorithm, x = ARGV[1], 0\n-- @choose set\nreturn x\n',
      'b.lua': 'return set(ARGV[1])\n',
      'lib/set.lua': 'local function set(algorithm)\n  local x\n  -- @choose set\n  return x\nend\n',
      'lib/one.lua': `${one}\n`,
      'algorithms/slow_start.lua': 'function set()\n  x = one()\nend\n',
      'algorithms/quick.lua': 'function set()\n  x = 2 * one()\nend\n',
    })
    const quick = ["if algorithm == 'quick' then", 'x = 2 * one()']
    const slow = ["elseif algorithm == 'slow-start' then", 'x = one()']
    expect(a.source.split('\n')).toEqual(['local algorithm, x = ARGV[1], 0', one, ...quick, ...slow, 'end', 'return x'])
    expect(b.source.split('\n')).toEqual([
      'local function set(algorithm)',
      'local x',
      ...[quick[0], one, quick[1]],
      ...[slow[0], one, slow[1]],
      'end',
      'return x',
      'end',
      'return set(ARGV[1])',
    ])
  })

  test('builds a script that inlines pieces of ALGORITHM for each algorithm that has them', () => {
    const { consumeOne } = embedded({
      'consume.lua': "local algorithm, x = 'ALGORITHM', 0\n-- @choose traits\n-- @inline ALGORITHM.measure\nreturn x\n",
      'algorithms/slow_start.lua': 'function measure()\n  x = 1\nend\n',
      'algorithms/quick.lua': 'function traits()\n  x = 2\nend\nfunction measure()\n  x = x + 1\nend\n',
      'algorithms/listed.lua': 'function traits()\n  x = 3\nend\n',
      'other.lua': 'local algorithm, x = ARGV[1], 0\n-- @choose traits\nreturn x\n',
    }) as unknown as { consumeOne: Record<string, Script> }
    expect(Object.keys(consumeOne)).toEqual(['quick', 'slow-start'])
    expect(consumeOne['slow-start'].name).toBe('consume.slow-start')
    expect(consumeOne['slow-start'].source).toBe("local algorithm, x = 'slow-start', 0\nx = 1\nreturn x")
    expect(consumeOne.quick.source).toBe("local algorithm, x = 'quick', 0\nx = 2\nx = x + 1\nreturn x")
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

  test.each([
    [
      'a piece that does not exist',
      { 'a.lua': '-- @inline lib.gone\n' },
      'lua/a.lua inlines lib.gone, which does not exist',
    ],
    [
      'a choice without an algorithm',
      { 'a.lua': '-- @choose gone\n' },
      'lua/a.lua chooses gone, which no algorithm has',
    ],
    ['a directive of another form', { 'a.lua': '-- @include one\n' }, 'lua/a.lua: given "-- @include one", expected'],
    [
      'a piece that inlines itself',
      { 'a.lua': '-- @inline x.one\n', 'lib/x.lua': 'function one()\n  -- @inline x.one\nend\n' },
      'lua/lib/x.lua: x.one → x.one inlines itself',
    ],
    [
      'a name that is nowhere declared',
      { 'a.lua': 'return one()\n' },
      'lua/a.lua: one is not declared where it is needed',
    ],
    [
      'a variable that hides a function',
      { 'a.lua': 'local one = 1\nreturn one\n', 'lib/x.lua': 'local function one() return 1 end\n' },
      'lua/a.lua: one is the name of a library function',
    ],
    [
      'a function that two files define',
      { 'lib/x.lua': 'local function one() return 1 end\n', 'lib/y.lua': 'local one = 1\n' },
      'lua/lib/y.lua and lua/lib/x.lua both define one',
    ],
    [
      'a function that nothing names',
      { 'lib/x.lua': 'local function one() return 1 end\n' },
      'lua/lib/x.lua: nothing uses one',
    ],
    [
      'two scripts for one algorithm',
      {
        'a.lua': 'local x\n-- @inline ALGORITHM.one\nreturn x\n',
        'b.lua': 'local x\n-- @inline ALGORITHM.one\nreturn x + 1\n',
        'algorithms/quick.lua': 'function one()\n  x = 1\nend\n',
      },
      'the scripts a.quick and b.quick are both built for quick',
    ],
    ['a block that is not closed', { 'a.lua': 'if ARGV[1] then\n  return 1\n' }, 'lua/a.lua: a block is not closed'],
  ])('says in one line where it found %s', (_, files, message) => {
    write(files as Record<string, string>)
    const { status, stderr } = run(folder)
    expect([status, stderr.match(/\n/g)]).toEqual([1, ['\n']])
    expect(stderr).toContain(`embed-lua: ${message}`)
  })
})
