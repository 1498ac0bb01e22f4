import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, describe, expect, test } from '@jest/globals'
import { compileExamples } from '../support/compiled-examples.js'
import { eventually } from '../support/eventually.js'
import { PostgresServer } from '../support/postgres-server.js'
import { RedisServer } from '../support/redis-server.js'
import { RestFront } from '../support/rest-front.js'

const folder = compileExamples()
afterAll(() => rmSync(folder, { recursive: true }))

// Most examples wait for time to pass: they run side by side.
const running = new Set<ChildProcess>()
const started = new Set<string>()
afterAll(() => {
  for (const child of running) child.kill('SIGKILL')
})

function start(example: string, env: Record<string, string> = {}): ChildProcess {
  const [file, ...args] = example.split(' ')
  started.add(file)
  const child = spawn(process.execPath, [join(folder, file.replace('.ts', '.mjs')), ...args], {
    env: { ...process.env, PORT: '0', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  running.add(child)
  return child
}

/** All that an example prints, once it has ended by itself. */
async function run(example: string, env?: Record<string, string>): Promise<{ code: number; output: string }> {
  const child = start(example, env)
  let output = ''
  child.stdout?.on('data', data => (output += data))
  child.stderr?.on('data', data => (output += data))
  const [code] = await once(child, 'close')
  return { code, output }
}

/** The address that a service prints when it listens. */
async function listening(child: ChildProcess): Promise<string> {
  for await (const line of createInterface({ input: child.stdout! })) {
    const url = /http:\/\/[\d.]+:\d+/.exec(line)?.[0]
    if (url) return url
  }
  throw new Error('the example ended without saying where it listens')
}

async function statuses(url: string, count: number, init?: RequestInit): Promise<number[]> {
  const all: number[] = []
  for (let i = 0; i < count; i++) all.push((await fetch(url, init)).status)
  return all
}

async function stopped(child: ChildProcess): Promise<number | null> {
  const closed = once(child, 'close')
  child.kill('SIGTERM')
  return (await closed)[0]
}

const passes = (count: number, status: number) => new Array<number>(count).fill(status)

describe('every example runs', () => {
  test.concurrent.each(['express.ts', 'fastify.ts', 'fetch.ts', 'hono.ts', 'koa.ts', 'nest.ts', 'node.ts'])(
    '%s lets ten pass and refuses the eleventh',
    async example => {
      const child = start(example)
      expect(await statuses(await listening(child), 11)).toEqual([...passes(10, 200), 429])
      expect(await stopped(child)).toBe(0)
    },
    60_000,
  )

  test.concurrent('edge.ts lets ten pass in all its processes, and refuses the eleventh', async () => {
    const redis = await RedisServer.start()
    const front = await RestFront.start(redis)
    const { url, token } = front.access
    const env = { UPSTASH_REDIS_REST_URL: url, UPSTASH_REDIS_REST_TOKEN: token }
    const children = [start('edge.ts', env), start('edge.ts', env)]
    const [one, another] = await Promise.all(children.map(listening))
    expect([...(await statuses(one, 6)), ...(await statuses(another, 5))]).toEqual([...passes(10, 200), 429])
    for (const child of children) expect(await stopped(child)).toBe(0)
    await front.stop()
    await redis.stop()
  }, 60_000)

  test.concurrent('mcp.ts waits as it is told, and loses no call', async () => {
    const { code, output } = await run('mcp.ts')
    expect(output.match(/^search \d$/gm)).toEqual(['search 1', 'search 2', 'search 3', 'search 4', 'search 5'])
    expect(output).toMatch(/^refused: waits \d+ ms$/m)
    expect(code).toBe(0)
  }, 60_000)

  test.concurrent('per-user.ts gives each plan its own quota', async () => {
    const child = start('per-user.ts')
    const url = await listening(child)
    expect(await statuses(url, 3)).toEqual([200, 200, 429])
    expect(await statuses(url, 6, { headers: { 'x-user': 'bob' } })).toEqual([...passes(5, 200), 429])
    expect(await statuses(url, 21, { headers: { 'x-user': 'ada' } })).toEqual([...passes(20, 200), 429])
  }, 60_000)

  test.concurrent('per-route.ts counts each route apart', async () => {
    const child = start('per-route.ts')
    const url = await listening(child)
    expect(await statuses(`${url}/login`, 4, { method: 'POST' })).toEqual([200, 200, 200, 429])
    expect(await statuses(`${url}/report?full`, 3)).toEqual([200, 200, 429])
    expect(await statuses(`${url}/`, 5)).toEqual(passes(5, 200))
  }, 60_000)

  test.concurrent('dashboard.ts serves it over a Redis of its own, unless it is given one', async () => {
    const child = start('dashboard.ts')
    expect(await statuses(`${await listening(child)}/limits/`, 1)).toEqual([200])
    expect(await stopped(child)).toBe(0)
  }, 60_000)

  test.concurrent('dashboard.ts serves the dashboard of a service with traffic, beside the service, and ends when it is told to', async () => {
    const redis = await RedisServer.start()
    const child = start('dashboard.ts', { REDIS_URL: redis.url })
    const url = await listening(child)
    expect(await statuses(`${url}/limits/`, 1)).toEqual([200])
    expect(await statuses(`${url}/`, 1)).toEqual([200])
    expect(await stopped(child)).toBe(0)
    await redis.stop()
  }, 60_000)

  test.concurrent('many-processes.ts admits one quota through two servers', async () => {
    const redis = await RedisServer.start()
    const { code, output } = await run('many-processes.ts', { REDIS_URL: redis.url })
    await redis.stop()
    expect(output).toContain('20 together.')
    expect(code).toBe(0)
  }, 60_000)

  test.concurrent('many-processes.ts says in one line that there is no Redis', async () => {
    const { code, output } = await run('many-processes.ts', { REDIS_URL: 'redis://127.0.0.1:1' })
    expect(output.trim()).toBe('No Redis at redis://127.0.0.1:1: start one, or set REDIS_URL')
    expect(code).toBe(1)
  }, 60_000)

  test.concurrent('postgres.ts admits one quota in two processes, or says in one line that there is no PostgreSQL', async () => {
    const server = await PostgresServer.start()
    const { code, output } = await run('postgres.ts', { DATABASE_URL: server.url() })
    await server.stop()
    expect(output).toContain('20 together.')
    expect(code).toBe(0)
    expect(await run('postgres.ts', { DATABASE_URL: 'postgres://u@127.0.0.1:1/none' })).toEqual({
      code: 1,
      output: 'No PostgreSQL at 127.0.0.1:1: start one, or set DATABASE_URL\n',
    })
  }, 60_000)

  test.concurrent('settle.ts charges an estimate, settles what was used, and waits for a debt as long as it is told', async () => {
    const { code, output } = await run('settle.ts')
    const lines = output.trim().split('\n')
    expect(lines.map(line => /^\w+/.exec(line)?.[0])).toEqual(['passed', 'passed', 'passed', 'refused', 'passed'])
    expect(lines[0]).toMatch(/charged 300 at first \(700 left\), used 40, then (9[6-9]\d|1000) left/)
    expect(lines[2]).toMatch(/used 1400, then 0 left/)
    expect(lines[3]).toMatch(/does not fit, come back in \d+ ms/)
    expect(code).toBe(0)
  }, 60_000)

  test.concurrent('concurrency.ts lets two in, has one wait and refuses one', async () => {
    const { code, output } = await run('concurrency.ts')
    const statuses = Object.fromEntries(
      [...output.matchAll(/^(\w+): (\d+) after/gm)].map(([, name, status]) => [name, status]),
    )
    expect(statuses).toEqual({ first: '200', second: '200', third: '200', fourth: '429' })
    expect(output).toMatch(/^fourth: .*come back in 1 s$/m)
    expect(code).toBe(0)
  }, 60_000)

  test.concurrent('chat.ts streams all answers within the limits of calls and tokens', async () => {
    const { code, output } = await run('chat.ts')
    expect(output).toMatch(/30 answers of 120 words, 0 refused, in \d+\.\d s/)
    expect(code).toBe(0)
  }, 60_000)

  test.concurrent('polite-fetch.ts keeps two processes within the limit of a partner', async () => {
    const redis = await RedisServer.start()
    const { code, output } = await run('polite-fetch.ts', { REDIS_URL: redis.url })
    await redis.stop()
    expect(output.match(/process \d+: 30 calls answered, 0 refused/g)).toHaveLength(2)
    expect(output).toMatch(/60 calls at 20 per second took \d+\.\d s/)
    expect(code).toBe(0)
  }, 60_000)

  test.concurrent('live.ts changes a limit for all and for one, and both servers obey', async () => {
    const redis = await RedisServer.start()
    const { code, output } = await run('live.ts', { REDIS_URL: redis.url })
    await redis.stop()
    const six = (passed: number) => Array.from({ length: 6 }, (_, i) => (i < passed ? 'passed' : 'refused')).join(', ')
    const answers = [...output.matchAll(/^ {2}(\w+)-\d+: (.*)$/gm)].map(match => match.slice(1))
    expect(answers).toEqual([
      ['bob', six(3)],
      ['bob', six(2)],
      ['ada', six(6)],
    ])
    expect(output).toMatch(/bert: all cleared\n {2}ann: ada 100\/1m, for an hour\n {2}ann: all 5\/1m\n$/)
    expect(code).toBe(0)
  }, 60_000)

  test.concurrent('metrics.ts counts what it refuses, and calls for help', async () => {
    const received: Array<{ text: string }> = []
    const receiver = createServer(async (req, res) => {
      received.push(JSON.parse((await req.toArray()).join('')))
      res.end()
    })
    await once(receiver.listen(0, '127.0.0.1'), 'listening')
    const { port } = receiver.address() as AddressInfo
    const child = start('metrics.ts', { WEBHOOK_URL: `http://127.0.0.1:${port}/` })
    const url = await listening(child)
    const got = await Promise.all(Array.from({ length: 100 }, async () => (await fetch(url)).status))
    const refused = got.filter(status => status === 429).length
    expect(refused).toBeGreaterThan(20)
    const page = await (await fetch(`${url}/metrics`)).text()
    expect(page).toContain(`limit="burst",outcome="refused",source="memory"} ${refused}`)
    await eventually('both alerts are received', () =>
      expect(received.map(({ text }) => text.split(':')[0]).sort()).toEqual(['firing many refusals', 'firing one key']),
    )
    expect(await stopped(child)).toBe(0)
    receiver.close()
  }, 60_000)

  test.concurrent('bottleneck.ts executes jobs by priority, two at once in all processes, and a failed one again', async () => {
    const redis = await RedisServer.start()
    const { code, output } = await run('bottleneck.ts', { REDIS_URL: redis.url })
    await redis.stop()
    const lines = output.trim().split('\n')
    expect(lines.filter(line => line.endsWith('has failed once'))).toEqual(['page 3 has failed once'])
    expect(lines.slice(-2)).toEqual(['8 pages, never more than 2 at once', 'the urgent one was not the last'])
    expect(code).toBe(0)
  }, 60_000)

  test.concurrent('mutex.ts works one at a time, and the store refuses an old token', async () => {
    const redis = await RedisServer.start()
    const { code, output } = await run('mutex.ts', { REDIS_URL: redis.url })
    await redis.stop()
    expect(output.trim().split('\n')).toEqual([
      'ada works',
      'ada has written',
      'bob works',
      'bob has written',
      'the paused one still holds its lease: false',
      'its late write is refused; the store says "carol"',
    ])
    expect(code).toBe(0)
  }, 60_000)

  test.concurrent('defer.ts loses nothing, though a worker is killed, and keeps one rate for all and one for each customer', async () => {
    const redis = await RedisServer.start()
    const { code, output } = await run('defer.ts', { REDIS_URL: redis.url })
    await redis.stop()
    expect(output).toContain('20 webhooks accepted')
    expect(output).toContain('worker 1 is killed')
    expect(output).toMatch(/20 processed in [\d.]+ s; lost: 0/)
    // Of 20 at 5 per second, the 16th comes three seconds after the first; of ten of hers at 2 per second, the last
    // four.
    expect(Number(/the 16th began after ([\d.]+) s/.exec(output)?.[1])).toBeGreaterThanOrEqual(3)
    expect(Number(/her 10th began after ([\d.]+) s/.exec(output)?.[1])).toBeGreaterThanOrEqual(4)
    expect(code).toBe(0)
  }, 60_000)

  test.concurrent('shared-rate.ts calls no faster than the rate, which is raised while it runs', async () => {
    const redis = await RedisServer.start()
    const { code, output } = await run('shared-rate.ts', { REDIS_URL: redis.url })
    await redis.stop()
    expect(output).toMatch(/^20 workers in 4 processes, 10 calls per second/)
    // Ten in each of the first three seconds at least, then thirty: 100 calls cannot take less than three seconds, nor
    // nine.
    const seconds = Number(/100 calls in ([\d.]+) s/.exec(output)?.[1])
    expect(seconds).toBeGreaterThanOrEqual(3)
    expect(seconds).toBeLessThan(9)
    expect(code).toBe(0)
  }, 60_000)

  test.concurrent('ws.ts hears ten messages and refuses two', async () => {
    const { code, output } = await run('ws.ts')
    expect(output.match(/: heard$/gm)).toHaveLength(10)
    expect(output.match(/: not heard, come back in \d+ ms$/gm)).toHaveLength(2)
    expect(code).toBe(0)
  }, 60_000)

  // The others have ended by then.
  test('this file runs every example, but adaptive.ts (verification/storms), nitro (test/versions) and sqlite.ts (test/sql)', () => {
    expect(readdirSync('examples').sort()).toEqual([...started, 'adaptive.ts', 'nitro', 'sqlite.ts'].sort())
  })
})
