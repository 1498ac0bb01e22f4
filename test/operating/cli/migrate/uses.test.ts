import { describe, expect, test } from '@jest/globals'
import { REPLACED } from '../../../../src/operating/cli/migrate/replaced-packages.js'
import { rewritten, usesOf } from '../../../../src/operating/cli/migrate/uses.js'

const migrated = (program: string) => rewritten(program, usesOf(program))

describe('an import line is rewritten, and nothing else of the program:', () => {
  test.each([
    ['a default import', `import rateLimit from 'express-rate-limit'\n`],
    ['double quotes and a semicolon', `import rateLimit from "express-rate-limit";\n`],
    ['names and types', `import rateLimit, { ipKeyGenerator, type Options } from 'express-rate-limit'\n`],
    [
      'several lines, CRLF, a byte order mark',
      `\uFEFFimport {\r\n  MemoryStore, // ours\r\n} from 'express-rate-limit'\r\n`,
    ],
    ['a type import', `import type { RateLimitInfo } from 'express-rate-limit'\n`],
    ['a namespace', `import * as limits from 'koa-ratelimit'\nlimits.default({})\n`],
    ['for its effect', `import 'bottleneck'\n`],
    ['an export', `export { default as limit } from 'koa-ratelimit'\nexport * from 'express-rate-limit'\n`],
    ['require', `const { rateLimit: limit } = require('express-rate-limit')\n`],
    ['module.require and a member', `var Memory = module.require('rate-limiter-flexible').RateLimiterMemory\n`],
    ['require.resolve', `console.log(require.resolve('bottleneck'))\n`],
    ['an import of CommonJS in TypeScript', `import Bottleneck = require('bottleneck')\n`],
    ['a dynamic import', `const { RateLimiterRedis } = await import('rate-limiter-flexible')\n`],
    ['a dynamic import of a template', 'const limit = (await import(`koa-ratelimit`)).default\n'],
    ['an import type', `let options: import('express-rate-limit').Options\n`],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the program.
    ['inside of a template', "const text = `${require('bottleneck').version} ${`b ${1}`}`\n"],
    ['behind what only looks like a comment', `const a = /[/*]'/.test('//') ? 1 / 2 : 3\nimport 'bottleneck'\n`],
    [
      'behind JSX with an apostrophe',
      `const a = <p>Don't /* here</p>\nconst B = require('bottleneck') // */\n`.replace(' /* here', ''),
    ],
    ['with attributes', `import limit from 'koa-ratelimit' with { type: 'x' }\n`],
  ])('%s', (_, before) => {
    const uses = usesOf(before)
    expect(uses.length).toBeGreaterThan(0)
    expect(migrated(before)).toBe(
      before.replace(
        /(['"`])(express-rate-limit|koa-ratelimit|bottleneck|rate-limiter-flexible)\1/g,
        '$1spillway/$2$1',
      ),
    )
  })

  test.each([
    ['bottleneck/light', 'spillway/bottleneck/light'],
    ['bottleneck/es5', 'spillway/bottleneck'],
  ])('%s', (from, to) => {
    expect(migrated(`const B = require('${from}')`)).toBe(`const B = require('${to}')`)
  })
})

describe('no import is', () => {
  test.each([
    ['a comment', `// import 'bottleneck'\n/* require('bottleneck') */ #!bottleneck`],
    ['part of a template', "const text = `import x from 'bottleneck'`"],
    ['another package', `import a from 'bottlenecks'\nimport b from '@koa/koa-ratelimit'\nimport './bottleneck'`],
    ['part of a text', `const text = "import a from 'bottleneck'"`],
  ])('%s', (_, program) => {
    expect(usesOf(program)).toEqual([])
  })
})

describe('is reported to be changed by hand:', () => {
  test.each([
    ['a package without a drop-in', `import rateLimit from '@fastify/rate-limit'`, 'there is no drop-in'],
    ['a module of its inside', `require('bottleneck/lib/Job')`, 'the drop-in has no module bottleneck/lib/Job'],
    [
      'a name that the drop-in lacks',
      `import { RateLimiterMemory, RateLimiterMongo as M } from 'rate-limiter-flexible'`,
      'the drop-in has no RateLimiterMongo',
    ],
    [
      'the same of a namespace',
      `const flexible = require('rate-limiter-flexible')\nnew flexible.RateLimiterMySQL({})`,
      'the drop-in has no RateLimiterMySQL',
    ],
    ['a mock', `jest.mock('express-rate-limit')`, 'it names the package without importing it'],
    ['a declaration', `declare module 'express-rate-limit' {}`, 'it names the package without importing it'],
    ['Array.from', `Array.from('bottleneck')`, 'it names the package without importing it'],
  ])('%s', (_, program, reason) => {
    expect(usesOf(program)).toEqual([expect.objectContaining({ dropIn: undefined, reason, line: 1 })])
    expect(migrated(program)).toBe(program)
  })
})

describe('the options that calls are given are listed:', () => {
  test.each([
    [
      'express',
      `import limit from 'express-rate-limit'\napp.use(limit({ windowMs: 1000, skip: () => ({ a: 1 }), max }))`,
      'windowMs skip max',
    ],
    [
      'a class',
      `const { RateLimiterMemory: M } = require('rate-limiter-flexible')\nnew M({ points: 2, duration: 1 })`,
      'points duration',
    ],
    [
      'a namespace',
      `import * as f from 'rate-limiter-flexible'\nnew f.RateLimiterRedis({ storeClient })`,
      'storeClient',
    ],
    [
      'a plugin',
      `import limit from '@fastify/rate-limit'\nawait app.register(limit, { max: 2, async keyGenerator() {} })`,
      'max keyGenerator',
    ],
    ['a plugin in place', `app.register(require('@fastify/rate-limit'), { global: false })`, 'global'],
    ['a call in place', `app.use(require('koa-ratelimit')({ 'driver': 'memory', db }))`, 'driver db'],
    [
      'but not the other names that are imported',
      `import limit, { ipKeyGenerator } from 'express-rate-limit'\nlimit({ max })`,
      'max',
    ],
    [
      'what stands before a key is none, unless it is one',
      `import limit from 'express-rate-limit'\nlimit({ get skip() {}, async *a() {}, get: 1, async, set() {}, ...b, [c]: 1, 'd': e })`,
      'skip a get async set d',
    ],
    ['no literal', `import limit from 'express-rate-limit'\nlimit(options)`, ''],
  ])('%s', (_, program, options) => {
    expect(usesOf(program).flatMap(use => use.options)).toEqual(options.split(' ').filter(Boolean))
  })
})

test('what is said to lack are the names of the original that the drop-in does not have', async () => {
  const names = async (module: string) =>
    Object.keys((await import(module)) as object).filter(name => name !== 'default')
  const [original, ours] = await Promise.all([
    names('rate-limiter-flexible'),
    names('../../../../src/replacing/rate-limiter-flexible/index.js'),
  ])
  expect(REPLACED['rate-limiter-flexible'].lacks?.toSorted()).toEqual(
    original.filter(name => !ours.includes(name)).sort(),
  )
})

test('every drop-in is an entry of the package', async () => {
  const { default: entries } = (await import('../../../../scripts/entries.json')) as { default: object }
  const dropIns = Object.values(REPLACED).flatMap(({ dropIns }) => Object.values(dropIns))
  expect(dropIns.filter(name => !Object.hasOwn(entries, name.replace('spillway/', '')))).toEqual([])
})
