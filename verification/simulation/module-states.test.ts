import { describe, expect, test } from '@jest/globals'
import { statesOf, withOwnStates } from './module-states.cjs'

const namesOf = (source: string) => statesOf(source).map(({ name }) => name)

describe('the states of a module are', () => {
  test.each([
    ['a variable', 'let count = 0', ['count']],
    ['one over several lines', 'let many:\n  | Map<string, number>\n  | undefined =\n  undefined', ['many']],
    ['an exported one', 'export let count = 0', ['count']],
    ['a map', 'const KNOWN = new Map<string, number>()', ['KNOWN']],
    ['a map within an object', 'const TABLES = { one: { two: new WeakMap() } } as const', ['TABLES']],
    [
      'an empty list, and what a call has made',
      'const ALL: string[] = []\nconst queue = makeQueue()',
      ['ALL', 'queue'],
    ],
    ['a static member', 'class Box { static #boxes = 0; static readonly all = new Set() }', ['Box.#boxes', 'Box.all']],
  ])('%s', (_, source, names) => {
    expect(namesOf(source)).toEqual(names)
  })

  test.each([
    'const MOST = 5',
    "const NAMES = Object.freeze(['a', 'b'])\nconst NONE = Object.freeze([])",
    'const make = () => new Map()\nfunction other() { let count = 0 }',
    "const UNITS = [['s', 1000]] as const\nconst KEY = Symbol('key')",
    'class Box { static readonly most = 5; static of() { return new Box() } #own = new Map() }',
    'declare let count: number\ntype Count = number',
  ])('not %j', source => {
    expect(namesOf(source)).toEqual([])
  })
})

describe('a module of the simulation', () => {
  test('with a state that is not listed is refused, and so is a list with one that is gone', () => {
    const message = 'src/a.ts keeps KNOWN for all of a process'
    expect(() => withOwnStates('a.ts', 'const KNOWN = new Map()', {})).toThrow(message)
    expect(() => withOwnStates('a.ts', '', { KNOWN: 'constant' })).toThrow('no longer KNOWN')
  })

  test('tells the simulation of its own states, and can be given others', () => {
    const source = 'export const END = new Map<string, number>()\nlet count = 1\nconst SAME = new Set()'
    const text = withOwnStates('a.ts', source, { END: 'own', count: 'own', SAME: 'constant' })
    expect(text).toContain('export let END = new Map')
    expect(text).toContain('first: () => (new Map<string, number>()), get: () => END, set: value => { END = value }')
    expect(text).toContain('get: () => count')
    expect(text).not.toContain('get: () => SAME')
  })
})
