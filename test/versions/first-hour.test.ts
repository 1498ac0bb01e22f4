import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { transformSync } from '@swc/core'
import { run, userProject } from '../package/packing.js'
import { root } from '../support/files.js'

// What a newcomer does: an empty folder, `npm init`, `npm install` of the tarball and a framework, the first program of
// the framework's page, and one request more than it allows. Nothing of the repository is in the folder.
const { devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))

/** Programs listen on port 3000, which somebody else may have. */
const ANY_PORT = `data:text/javascript,${encodeURIComponent(`
  import { Server } from 'node:net'
  const { listen } = Server.prototype
  Server.prototype.listen = function () {
    return listen.call(this, 0, '127.0.0.1', () => console.log(this.address().port))
  }`)}`

/** The page → what is installed, and what follows its first program if it does not listen by itself. */
const FRAMEWORKS: Record<string, { install: string[]; after?: string }> = {
  express: { install: ['express'] },
  koa: { install: ['koa'] },
  fastify: { install: ['fastify'] },
  hono: { install: ['hono', '@hono/node-server'] },
  h3: { install: ['h3'] },
  node: { install: [] },
  nest: {
    install: ['@nestjs/common', '@nestjs/core', '@nestjs/platform-express', 'reflect-metadata', 'rxjs'],
    after: `import 'reflect-metadata'
      import { NestFactory } from '@nestjs/core'
      const app = await NestFactory.create(AppModule, { logger: false })
      await app.listen(3000)`,
  },
  fetch: {
    install: [],
    after: `import { createServer } from 'node:http'
      createServer(async (req, res) => {
        const request = new Request('http://service.example/', { headers: { 'x-forwarded-for': '192.0.2.1' } })
        const response = await GET(request)
        res.writeHead(response.status, Object.fromEntries(response.headers)).end(await response.text())
      }).listen(3000)`,
  },
}

const MESSAGES: Record<string, { install: string[]; after: string; printed: string }> = {
  ws: {
    install: ['ws'],
    after: `import { createServer } from 'node:http'
      import { once } from 'node:events'
      import { WebSocket } from 'ws'
      const web = createServer().on('upgrade', (req, socket, head) =>
        server.handleUpgrade(req, socket, head, one => server.emit('connection', one, req)))
      web.listen(0, '127.0.0.1')
      await once(web, 'listening')
      const client = new WebSocket('ws://127.0.0.1:' + web.address().port, { headers: { 'x-forwarded-for': '192.0.2.1' } })
      await once(client, 'open')
      for (let i = 0; i < 11; i++) client.send('message')
      const [code] = await once(client, 'close')
      console.log(code)
      process.exit()`,
    printed: '1008',
  },
  mcp: {
    install: ['@modelcontextprotocol/sdk'],
    after: `import { Client } from '@modelcontextprotocol/sdk/client/index.js'
      import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js'
      const [near, far] = InMemoryTransport.createLinkedPair()
      const client = new Client({ name: 'agent', version: '1.0.0' })
      await server.connect(far)
      await client.connect(near)
      const codes = []
      for (let i = 0; i < 11; i++) codes.push(await client.callTool({ name: 'search' }).then(() => 0, ({ code }) => code))
      console.log(codes.join(' '))
      process.exit()`,
    printed: '0 0 0 0 0 0 0 0 0 0 -32023',
  },
}

let tarball: string
let packed: string
beforeAll(() => {
  ;({ home: packed, tarball } = userProject())
}, 100_000)
afterAll(() => rmSync(packed, { recursive: true, force: true }))

let home: string
let child: ChildProcess | undefined
afterEach(async () => {
  child?.kill()
  if (child?.exitCode === null && child.signalCode === null) await once(child, 'close')
  child = undefined
  rmSync(home, { recursive: true, force: true })
})

/** An empty folder in which the package has been installed beside `packages`, with the first program of a page. */
function firstProgram(page: string, packages: string[], after = ''): string {
  home = mkdtempSync(join(tmpdir(), 'spillway-hour-'))
  run(home, 'npm', 'init', '--yes')
  const named = packages.map(name => `${name}@${devDependencies[name]}`)
  run(home, 'npm', 'install', '--no-audit', '--no-fund', '--prefer-offline', tarball, ...named)
  const [, program] = /^```[jt]s\n(.*?)^```$/ms.exec(readFileSync(join(root, `docs/${page}.md`), 'utf8')) ?? []
  const { code } = transformSync(`${program}\n${after}`, {
    jsc: {
      parser: { syntax: 'typescript', decorators: true },
      target: 'es2022',
      transform: { legacyDecorator: true, decoratorMetadata: true },
    },
  })
  writeFileSync(join(home, 'app.mjs'), code)
  return join(home, 'app.mjs')
}

async function portOf(started: ChildProcess): Promise<string> {
  for await (const line of createInterface({ input: started.stdout! })) if (/^\d+$/.test(line)) return line
  throw new Error('the program ended without listening')
}

describe('the first hour, in an empty folder with the tarball', () => {
  test.each(Object.entries(FRAMEWORKS))(
    '%s: the first program of its page lets a hundred requests pass and refuses the next, without a warning',
    async (page, { install, after }) => {
      const program = firstProgram(page, install, after)
      child = spawn(process.execPath, ['--import', ANY_PORT, program], { cwd: home, stdio: 'pipe' })
      const said = text(child.stderr!)
      const url = `http://127.0.0.1:${await portOf(child)}/`
      const statuses: number[] = []
      for (let i = 0; i < 100; i++) statuses.push((await fetch(url)).status)
      expect(new Set(statuses)).toEqual(new Set([200]))
      const refused = await fetch(url)
      expect(refused.status).toBe(429)
      expect(refused.headers.get('ratelimit')).toMatch(/"100-per-1m"; ?r=0; ?t=\d+/)
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
      expect(await refused.text()).toMatch(/[Tt]oo many requests/)
      // Some servers say on SIGTERM that they stop.
      child.kill('SIGKILL')
      expect(await said).toBe('')
    },
    100_000,
  )

  test.each(Object.entries(MESSAGES))(
    '%s: the first program of its page lets ten messages pass and refuses the next, without a warning',
    async (page, { install, after, printed }) => {
      const program = firstProgram(page, install, after)
      child = spawn(process.execPath, [program], { cwd: home, stdio: 'pipe' })
      const [out, said] = await Promise.all([text(child.stdout!), text(child.stderr!)])
      expect([out.trim(), said]).toEqual([printed, ''])
    },
    100_000,
  )

  test('the command tells a project with another limiter what to change, and changes it', () => {
    const program = firstProgram('express', ['express', 'express-rate-limit'])
    writeFileSync(
      program,
      "import { rateLimit } from 'express-rate-limit'\nrateLimit({ limit: 2, windowMs: 60_000 })\n",
    )
    expect(run(home, 'npx', 'spillway', 'migrate')).toContain('spillway/express-rate-limit')
    run(home, 'npx', 'spillway', 'migrate', '--write')
    expect(readFileSync(program, 'utf8')).toContain("from 'spillway/express-rate-limit'")
    run(home, process.execPath, program)
  }, 100_000)
})
