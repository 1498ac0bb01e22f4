import { AsyncLocalStorage } from 'node:async_hooks'
import vm, { compileFunction, createContext } from 'node:vm'
import { afterEach, expect, test } from '@jest/globals'
import { jsonFromChild } from './child.js'

const { Script } = vm
afterEach(() => {
  vm.Script = Script
})

const compiledIn = (context: object, source: string) =>
  compileFunction(source, ['given'], { filename: '/a/module.js', parsingContext: createContext(context) })

test('a module that is compiled for several contexts sees the globals of each', () => {
  const source = 'return [mine, given]'
  expect(compiledIn({ mine: 1 }, source)('a')).toEqual([1, 'a'])
  expect(compiledIn({ mine: 2 }, source)('b')).toEqual([2, 'b'])
})

test('a module is compiled once, however many contexts load it', () => {
  let compilations = 0
  class Counted extends Script {
    constructor(...args: ConstructorParameters<typeof Script>) {
      super(...args)
      compilations++
    }
  }
  vm.Script = Counted
  expect([1, 2, 3].map(i => compiledIn({ i }, 'return 10 * i')())).toEqual([10, 20, 30])
  expect(compilations).toBe(1)
})

test('a module whose source has changed is compiled anew', () => {
  expect(compiledIn({}, 'return 1')()).toBe(1)
  expect(compiledIn({}, 'return 2')()).toBe(2)
})

test('an error in the first line names the column of the source', () => {
  const { stack } = compiledIn({ Error }, 'return new Error("here")')()
  expect(stack).toContain('/a/module.js:1:8')
})

test('a function that ends in a comment compiles, and a syntax error is reported', () => {
  expect(compiledIn({}, 'return given // done')(3)).toBe(3)
  expect(() => compiledIn({}, 'return )')).toThrow("Unexpected token ')'")
})

test('an AsyncLocalStorage that a file used holds nothing after the file', async () => {
  expect(new AsyncLocalStorage<number>().run(1, () => 'runs')).toBe('runs')
  const stores = await jsonFromChild(`
    import { AsyncLocalStorage } from 'node:async_hooks'
    import { createRequire } from 'node:module'
    const Environment = createRequire(process.cwd() + '/')('./test/support/test-environment.cjs')
    const [ran, entered] = [new AsyncLocalStorage(), new AsyncLocalStorage()]
    const projectConfig = { testEnvironmentOptions: { globalsCleanup: 'off' }, globals: {} }
    const environment = new Environment({ projectConfig }, {})
    await ran.run(1, async () => {
      entered.enterWith(2)
      const during = [ran.getStore(), entered.getStore()]
      await environment.teardown()
      console.log(JSON.stringify({ during, after: [ran.getStore() ?? null, entered.getStore() ?? null] }))
    })`)
  expect(stores).toEqual({ during: [1, 2], after: [null, null] })
})
