import { describe, expect, test } from '@jest/globals'
import { LuaBundler } from '../../scripts/bundle-lua.js'

/** The lines of the script `a`, as it is sent. */
const bundled = (files: Record<string, string | string[]>, algorithm?: string): string[] => {
  const text = (module: string) => [files[module]].flat().join('\n')
  return new LuaBundler(text).bundle('a', algorithm).split('\n')
}
const numbers = [
  '-- Numbers.',
  'local numbers = {}',
  'numbers.FIRST = 1',
  '--- One.',
  'function numbers.one() return numbers.FIRST end',
  'function numbers.two() return numbers.one() + numbers.one() end',
  'function numbers.three() return 3 end',
  'return numbers',
]
const FIRST = 'local numbers_FIRST = 1'
const ONE = 'local function numbers_one() return numbers_FIRST end'
const TWO = 'local function numbers_two() return numbers_one() + numbers_one() end'

describe('a script of Lua is bundled', () => {
  test('without comments, indentation and blank lines', () => {
    const a = ['--[[ head: "here" ]]', "local x = '-- none' -- one", '', 'if x then', '  return x', 'end']
    expect(bundled({ a })).toEqual(["local x = '-- none'", 'if x then', 'return x', 'end'])
  })

  test('with the functions that it names, each once, after those that they need', () => {
    const a = ["local numbers = require 'numbers'", 'return numbers.two() + numbers.one()']
    expect(bundled({ a, numbers })).toEqual([FIRST, ONE, TWO, 'return numbers_two() + numbers_one()'])
  })

  test('with those of modules that modules require', () => {
    const more = ["local numbers = require 'numbers'", 'local more = {}', 'function more.four()']
    const a = ["local more = require 'more'", 'return more.four()']
    expect(bundled({ a, numbers, more: [...more, '  return 2 * numbers.two()', 'end', 'return more'] })).toEqual([
      ...[FIRST, ONE, TWO, 'local function more_four()', 'return 2 * numbers_two()', 'end'],
      'return more_four()',
    ])
  })

  test('with what is rare in the block that requires it, without what is in sight already', () => {
    const a = [
      "local numbers = require 'numbers'",
      'if ARGV[1] then',
      "  local numbers = require 'numbers'",
      '  return numbers.one() + numbers.three()',
      'end',
      'return numbers.one()',
    ]
    expect(bundled({ a, numbers })).toEqual([
      ...[FIRST, ONE, 'local function numbers_three() return 3 end'],
      ...['if ARGV[1] then', 'return numbers_one() + numbers_three()', 'end', 'return numbers_one()'],
    ])
  })

  test('with a table of functions where a variable becomes the module, or a function returns it', () => {
    const a = ['local later', 'if ARGV[1] then', "  later = require 'numbers'", 'end', 'return later.one()']
    expect(bundled({ a, numbers }).slice(2, 5)).toEqual([FIRST, ONE, 'later = { one = numbers_one }'])
    expect(bundled({ a: "return require 'numbers'", numbers }).at(-1)).toBe(
      'return { FIRST = numbers_FIRST, one = numbers_one, two = numbers_two, three = numbers_three }',
    )
  })

  test('for the algorithm that ALGORITHM names', () => {
    const a = ["local algorithm = require('kinds.' .. ALGORITHM)", 'return algorithm.measure(), ALGORITHM']
    const quick = ['local quick = {}', 'function quick.measure() return 1 end', 'return quick']
    expect(bundled({ a, 'kinds.quick': quick }, 'quick')).toEqual([
      'local function quick_measure() return 1 end',
      "return quick_measure(), 'quick'",
    ])
  })

  test('or not, if a module has no such function', () => {
    const a = ["local numbers = require 'numbers'", 'return numbers.four()']
    expect(() => bundled({ a, numbers })).toThrow('numbers has no four')
  })
})
