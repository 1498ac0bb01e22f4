import { describe, expect, test } from '@jest/globals'
import { refuseHooksBesideConcurrent } from './concurrent-hooks.cjs'

const hook = (type: string, file = '/project/test/some.test.ts') => ({
  type,
  asyncError: {
    stack: `Error:\n    at ${file}:1:1\n    at load (/project/node_modules/jest-circus/build/index.js:1:1)`,
  },
})
const block = (hooks: readonly object[], ...children: readonly object[]) => ({ type: 'describeBlock', hooks, children })
const concurrent = { type: 'test', name: 'runs beside others', concurrent: true }
const alone = { type: 'test', name: 'runs alone', concurrent: false }
const check = (root: object) => () => refuseHooksBesideConcurrent(root as never)

describe('a hook for each test', () => {
  test.each(['beforeEach', 'afterEach'])('%s is refused beside a concurrent test', type => {
    const message = `test.concurrent('runs beside others') would run without the ${type} around it`
    expect(check(block([hook(type)], concurrent))).toThrow(message)
    expect(check(block([], block([hook(type)], alone, block([], concurrent))))).toThrow(message)
  })

  test('may stand in other describe blocks, and may be one of Jest itself', () => {
    const ofJest = hook('beforeEach', '/project/node_modules/jest-circus/build/jestAdapter.js')
    expect(check(block([ofJest], concurrent))).not.toThrow()
    expect(check(block([], block([hook('beforeEach')], alone), concurrent))).not.toThrow()
  })
})

test('a hook for all tests may stand beside concurrent tests', () => {
  expect(check(block([hook('beforeAll'), hook('afterAll')], concurrent))).not.toThrow()
})
