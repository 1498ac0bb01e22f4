import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { transformSync } from '@swc/core'
import { root } from '../support/files.js'

// The programs of docs/more-frameworks.md, as the page has them, each in a process of its own.
const PAGE = readFileSync(join(root, 'docs/more-frameworks.md'), 'utf8')
const INSTALLED = join(root, 'test/versions/node_modules')

let home = ''
beforeAll(() => {
  mkdirSync(join(INSTALLED, '.cache'), { recursive: true })
  // There the programs find the frameworks.
  home = mkdtempSync(join(INSTALLED, '.cache/pages-'))
  writeFileSync(join(home, 'package.json'), JSON.stringify({ private: true, type: 'module' }))
  mkdirSync(join(home, 'node_modules/next'), { recursive: true })
  symlinkSync(root, join(home, 'node_modules/spillway'))
  // Next.js is too large to install for one class: what its proxy needs of it.
  writeFileSync(
    join(home, 'node_modules/next/server.js'),
    `export class NextResponse extends Response {
       static next() { return new NextResponse(null, { headers: { 'x-middleware-next': '1' } }) }
     }`,
  )
  writeFileSync(
    join(home, 'node_modules/next/package.json'),
    JSON.stringify({ name: 'next', type: 'module', exports: { './server': './server.js' } }),
  )
})
afterAll(() => rmSync(home, { recursive: true }))

/** Writes a program of the page, and runs `driver` beside it, which prints JSON. */
function run(section: string, file: string, driver: string): unknown {
  const [, text = ''] = PAGE.split(`\n## ${section}\n`)
  const [, code] = text.split(`\`\`\`ts ${file}\n`)
  const folder = mkdtempSync(join(home, 'program-'))
  const target = join(folder, file.replace('.ts', '.mjs'))
  mkdirSync(dirname(target), { recursive: true })
  const jsc = { parser: { syntax: 'typescript' }, target: 'es2022' } as const
  writeFileSync(target, transformSync(code.split('```')[0], { jsc }).code)
  const main = join(folder, 'main.mjs')
  writeFileSync(main, `const from = path => import(${JSON.stringify(`${folder}/`)} + path)\n${driver}\nprocess.exit()`)
  return JSON.parse(execFileSync(process.execPath, [main], { encoding: 'utf8', cwd: folder }))
}

const OF_STATUSES = 'const counts = {}; for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1'
const PRINT = `${OF_STATUSES}\nconsole.log(JSON.stringify([counts, answers[0].headers.get('ratelimit')]))`

describe('docs/more-frameworks.md', () => {
  test('the programs of the frameworks that are installed compile in strict TypeScript', () => {
    const folder = mkdtempSync(join(home, 'types-'))
    const programs = [...PAGE.matchAll(/```ts (\S+)\n([\s\S]*?)```/g)].map(([, , code]) => code)
    const known = programs.filter(code => !/from '(@sveltejs\/kit|next\/server|astro)'/.test(code))
    expect([known.length, programs.length]).toEqual([6, 9])
    known.forEach((code, i) => void writeFileSync(join(folder, `program-${i}.ts`), code))
    const compilerOptions = {
      ...{ strict: true, target: 'es2022', module: 'nodenext', skipLibCheck: true, noEmit: true },
      ...{ lib: ['es2023', 'dom'], types: ['node'], typeRoots: [join(root, 'node_modules/@types')] },
    }
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }))
    const tsc = join(root, 'node_modules/typescript/bin/tsc')
    expect(spawnSync(process.execPath, [tsc, '-p', folder], { encoding: 'utf8' }).stdout).toBe('')
  }, 60_000)

  test('SvelteKit: handle', () => {
    const driver = `
      const { handle } = await from('hooks.server.mjs')
      const ask = (url, address) => handle({
        event: { request: new Request(url), getClientAddress: () => address },
        resolve: async () => new Response('page'),
      })
      const answers = []
      for (let i = 0; i < 101; i++) answers.push(await ask('http://localhost/', '203.0.113.1'))
      answers.push(await ask('http://localhost/', '203.0.113.2'), await ask('http://localhost/_app/a.js', '203.0.113.1'))
      ${PRINT}`
    expect(run('SvelteKit', 'hooks.server.ts', driver)).toEqual([{ 200: 102, 429: 1 }, '"100-per-1m";r=99;t=60'])
  })

  test('Next.js: proxy, and a route handler', () => {
    const asking = (file: string, name: string) => `
      const { ${name} } = await from('${file}')
      const headers = { 'x-forwarded-for': '203.0.113.1' }
      const answers = []
      for (let i = 0; i < 101; i++) answers.push(await ${name}(new Request('http://localhost/api', { headers })))
      ${PRINT}`
    expect(run('Next.js', 'proxy.ts', asking('proxy.mjs', 'proxy'))).toEqual([
      { 200: 100, 429: 1 },
      '"100-per-1m";r=99;t=60',
    ])
    const file = 'app/api/search/route'
    expect(run('Next.js', `${file}.ts`, asking(`${file}.mjs`, 'GET'))).toEqual([
      { 200: 10, 429: 91 },
      '"10-per-1m";r=9;t=60',
    ])
  })

  test('tRPC: a batch costs what it calls', () => {
    const driver = `
      const { handle } = await from('server.mjs')
      const answers = []
      for (const path of ['hello', 'hello,hello,hello', 'hello,hello,hello,hello', 'hello,hello,hello', 'hello,hello']) {
        answers.push(await handle(new Request('http://localhost/trpc/' + path + '?batch=1&input={}'), '203.0.113.1'))
      }
      const bodies = await Promise.all(answers.map(answer => answer.text()))
      console.log(JSON.stringify([answers.map(({ status }) => status), JSON.parse(bodies[1]).length]))`
    expect(run('tRPC', 'server.ts', driver)).toEqual([[200, 200, 200, 429, 200], 3])
  })

  test('Elysia: wrap', () => {
    const driver = `
      const { app } = await from('server.mjs')
      const answers = []
      const ask = user => app.handle(new Request('http://localhost/', { headers: { 'x-user': user } }))
      for (let i = 0; i < 11; i++) answers.push(await ask('ann'))
      answers.push(await ask('bob'))
      ${PRINT}`
    expect(run('Elysia', 'server.ts', driver)).toEqual([{ 200: 11, 429: 1 }, '"10-per-1m";r=9;t=60'])
  })

  test('Astro: onRequest', () => {
    const driver = `
      const { onRequest } = await from('src/middleware.mjs')
      const answers = []
      const request = new Request('http://localhost/')
      for (let i = 0; i < 101; i++) {
        const context = { request: new Request('http://localhost/'), clientAddress: '203.0.113.1', isPrerendered: false }
        answers.push(await onRequest(context, async () => new Response('page')))
      }
      ${PRINT}`
    expect(run('Astro', 'src/middleware.ts', driver)).toEqual([{ 200: 100, 429: 1 }, '"100-per-1m";r=99;t=60'])
  })

  test('better-auth: its limits are counted by a RateLimiter, atomically', () => {
    const driver = `
      const { auth } = await from('auth.mjs')
      const headers = { 'x-forwarded-for': '203.0.113.1' }
      const ask = path => auth.handler(new Request('http://localhost:3000/api/auth' + path, { headers }))
      const answers = await Promise.all(Array.from({ length: 9 }, () => ask('/ok')))
      const wait = answers.find(({ status }) => status === 429)?.headers.get('x-retry-after')
      ${OF_STATUSES}
      console.log(JSON.stringify([counts, wait]))`
    expect(run('better-auth', 'auth.ts', driver)).toEqual([{ 200: 5, 429: 4 }, '60'])
  })

  test('GraphQL: the directives say what a document costs, fragments are counted where they are used', () => {
    const driver = `
      import { buildSchema, parse } from 'graphql'
      const { costOf } = await from('cost.mjs')
      const schema = buildSchema(\`
        directive @cost(weight: String!) on FIELD_DEFINITION
        directive @listSize(assumedSize: Int, slicingArguments: [String!]) on FIELD_DEFINITION
        type Query {
          user: User @cost(weight: "2")
          search(first: Int, last: Int): [User] @listSize(assumedSize: 50, slicingArguments: ["first", "last"]) @cost(weight: "10")
        }
        type User { name: String, age: Int @cost(weight: "0.5"), friends: [User] @listSize(assumedSize: 20) }\`)
      const costs = [
        '{ user { name } }',
        '{ search(first: 5) { name friends { name } } }',
        'query ($n: Int) { search(first: $n) { friends { friends { friends { __typename } } } } }',
        '{ search { name age } }',
        '{ search(first: 2, last: 7) { ...f } } fragment f on User { friends { ...g } } fragment g on User { ... on User { age } }',
        '{ search { ...f } } fragment f on User { friends { ...f } }',
        '{ a: user { age } b: user { age } }',
      ].map(text => costOf(parse(text), schema, { n: 3 }))
      console.log(JSON.stringify(costs))`
    const nested = 10 + 3 * (1 + 20 * (1 + 20))
    const spread = 10 + 7 * (1 + 20 * 0.5)
    expect(run('GraphQL by cost', 'cost.ts', driver)).toEqual([2, 15, nested, 10 + 50 * 0.5, spread, 1, 5])
  })

  test('Socket.IO: an event over the limit reaches no listener', () => {
    const driver = `
      import { createServer } from 'node:http'
      import { once } from 'node:events'
      import { io as connect } from 'socket.io-client'
      const { io } = await from('server.mjs')
      const server = createServer().listen(0, '127.0.0.1')
      await once(server, 'listening')
      io.attach(server)
      const socket = connect('http://127.0.0.1:' + server.address().port)
      const refused = []
      let answered = 0
      const all = new Promise(done => {
        const count = () => (answered + refused.length === 7 ? done() : undefined)
        socket.on('slow down', told => (refused.push(told.retryAfterMs > 0), count()))
        for (let i = 0; i < 7; i++) socket.emit('say', 'hello', () => (answered++, count()))
      })
      await all
      console.log(JSON.stringify([answered, refused]))`
    expect(run('Socket.IO', 'server.ts', driver)).toEqual([5, [true, true]])
  })
})
