import type { ChildProcessWithoutNullStreams } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { readAddress } from '../../../src/operating/cli/redis-address.js'
import { waitForRedis } from '../../../src/operating/cli/redis-connection.js'
import { freePort } from '../../support/free-port.js'
import { RedisCluster } from '../../support/redis-cluster.js'
import { RedisServer } from '../../support/redis-server.js'
import { encoded } from '../dashboard/open-dashboard.js'
import { type Spawned, spawnSpillway } from './spawn-spillway.js'

// Each test starts processes, on a machine that may be busy.
jest.setTimeout(60_000)

/** A folder in which this client is installed, and no other. */
const folderOf = Object.fromEntries(
  ['ioredis', 'redis'].map(client => {
    const folder = mkdtempSync(join(tmpdir(), `spillway-${client}-`))
    mkdirSync(join(folder, 'node_modules'))
    symlinkSync(resolve(__dirname, '../../../node_modules', client), join(folder, 'node_modules', client))
    return [client, folder]
  }),
)

let redis: RedisServer
beforeAll(async () => {
  redis = await RedisServer.start({ args: ['--requirepass', '100%'] })
})
afterAll(async () => {
  for (const folder of Object.values(folderOf)) rmSync(folder, { recursive: true })
  await redis.stop()
})

/** Starts the dashboard beside a client; `told` gets each line that it prints. */
function dashboard(
  client: string,
  args: readonly string[],
  told: (line: string, child: ChildProcessWithoutNullStreams) => unknown,
  env: NodeJS.ProcessEnv = {},
): Promise<Spawned> {
  return spawnSpillway(['dashboard', ...args], {
    cwd: folderOf[client],
    env,
    with: child => {
      for (const input of [child.stdout, child.stderr]) createInterface({ input }).on('line', line => told(line, child))
    },
  })
}

/** The view of keys, which asks Redis, of a dashboard that printed this line. */
async function viewed(line: string): Promise<number> {
  const url = new URL(line)
  const token = url.hash.slice('#login='.length)
  const entered = await fetch(`${url.origin}/login`, { method: 'POST', headers: { 'x-spillway-login': token } })
  const headers = { 'x-spillway-session': await entered.text(), 'x-spillway-request': encoded({ page: 'queues' }) }
  return (await fetch(`${url.origin}/view`, { headers })).status
}

/** Runs until it has printed its address, looks at a view, and ends it. */
async function look(client: string, args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  let status: number | undefined
  const { exitCode, stderr } = await dashboard(
    client,
    args,
    async (line, child) => {
      if (!line.startsWith('http')) return
      status = await viewed(line).catch(() => -1)
      child.kill('SIGINT')
    },
    env,
  )
  return { status, exitCode, stderr }
}

const DONE = { status: 200, exitCode: 130, stderr: '' }

describe.each(['ioredis', 'redis'])('the dashboard with %s', client => {
  test('says within a second what it waits for, and the first Ctrl-C ends it', async () => {
    const port = await freePort()
    const ended = await dashboard(client, ['--redis', `redis://127.0.0.1:${port}`], (line, child) => {
      if (line.startsWith('waiting')) child.kill('SIGINT')
    })
    expect(ended).toEqual({
      exitCode: 130,
      stdout: '',
      stderr: `waiting for Redis at 127.0.0.1:${port}: connection refused\n`,
    })
  })

  test('starts once Redis can be reached', async () => {
    const port = await freePort()
    let server: Server | undefined
    let status: number | undefined
    await dashboard(client, ['--redis', `redis://:100%@127.0.0.1:${port}`], async (line, child) => {
      if (line.startsWith('waiting')) {
        server = createServer(socket => {
          const plain = connect(redis.port, '127.0.0.1')
          for (const end of [socket, plain]) end.on('error', () => {})
          socket.pipe(plain).pipe(socket)
        }).listen(port, '127.0.0.1')
      } else if (line.startsWith('http')) {
        status = await viewed(line).catch(() => -1)
        child.kill('SIGINT')
      }
    })
    server?.close()
    expect(status).toBe(200)
  })

  test.each([
    ['redis://:100%@', 'a bare % in the password'],
    ['redis://:100%25@', 'an escaped one'],
    ['redis://default:100%@', 'a user'],
  ])('reads %s: %s', async login => {
    const url = `${login}127.0.0.1:${redis.port}/3`
    expect(await look(client, ['--redis', url])).toEqual(DONE)
    expect(await look(client, [], { REDIS_URL: url })).toEqual(DONE)
  })

  test.each([
    ['', 'NOAUTH Authentication required.; give the password in the URL'],
    [':SECRET@', 'WRONGPASS invalid username-password pair or user is disabled.; check the name and the password'],
  ])('says in one line that it may not log in: redis://%s', async (login, message) => {
    const url = `redis://${login}127.0.0.1:${redis.port}`
    const [ended, doctor] = await Promise.all([
      dashboard(client, ['--redis', url], () => {}),
      spawnSpillway(['doctor', '--redis', url, '--json']),
    ])
    expect(ended).toMatchObject({ exitCode: 1, stdout: '' })
    expect(ended.stderr).toContain(`spillway dashboard: Redis at 127.0.0.1:${redis.port}: ${message}`)
    expect(ended.stderr).toMatch(/^[^\n]+\n$/)
    expect(ended.stderr).not.toContain('SECRET')
    const [finding] = JSON.parse(doctor.stdout).findings
    expect(ended.stderr).toContain(`${finding.text}; ${finding.remedy}`)
    expect(doctor.exitCode).toBe(1)
  })

  test('shows a cluster, of which the URL names one node', async () => {
    const cluster = await RedisCluster.start()
    try {
      expect(await look(client, ['--redis', cluster.nodes[0].url])).toEqual(DONE)
    } finally {
      await cluster.stop()
    }
  })
})

test('Ctrl-C ends the dashboard even if its client leaves something open', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'spillway-client-'))
  const module = join(folder, 'node_modules', 'ioredis')
  mkdirSync(module, { recursive: true })
  writeFileSync(
    join(module, 'index.js'),
    `const { Redis } = require(${JSON.stringify(resolve(__dirname, '../../../node_modules/ioredis'))})
     exports.Redis = class extends Redis {
       leftOpen = setInterval(() => {}, 1000)
     }`,
  )
  try {
    const { exitCode } = await spawnSpillway(['dashboard', '--redis', `redis://:100%@127.0.0.1:${redis.port}`], {
      cwd: folder,
      with: child => child.stdout.once('data', () => child.kill('SIGINT')),
    })
    expect(exitCode).toBe(130)
  } finally {
    rmSync(folder, { recursive: true })
  }
})

describe.each(['doctor', 'dashboard'])('the %s', command => {
  test('says what it waits for if a server does not answer, and Ctrl-C ends it at once', async () => {
    const server = createServer(() => {}).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const { exitCode, stderr } = await spawnSpillway([command, '--redis', `redis://127.0.0.1:${port}`], {
      with: child => {
        createInterface({ input: child.stderr }).on('line', () => child.kill('SIGINT'))
      },
    })
    server.close()
    expect([exitCode, stderr]).toEqual([130, `waiting for Redis at 127.0.0.1:${port}: no answer yet\n`])
  })

  test.each(['unix:///run/redis.sock', '/run/redis.sock', 'redis://:SECRET@h/x', 'http://:SECRET@h'])(
    'refuses %s in the same words',
    async url => {
      const { exitCode, stdout, stderr } = await spawnSpillway([command], { env: { REDIS_URL: url } })
      expect([exitCode, stdout]).toEqual([2, ''])
      expect(stderr).toMatch(new RegExp(`^spillway ${command}: REDIS_URL: .*, expected a URL like redis://`))
      expect(stderr).not.toContain('SECRET')
    },
  )

  test('names the word that is too many, unless it may hold a password', async () => {
    const { exitCode, stderr } = await spawnSpillway([command, '--redis', 'redis://h', 'extra', 'redis://:SECRET@h'])
    expect(exitCode).toBe(2)
    expect(stderr).toContain('given "extra" (not repeated here: it may hold a password), expected options only, like')
  })
})

test('a cluster is known as one also to a user who may not INFO, and a single server as none', async () => {
  const terminal = { output: { write: () => true }, errors: { write: () => true }, env: {} } as never
  const isCluster = async (url: string) => {
    const address = { ...readAddress(url), certificates: {} }
    return (await waitForRedis(address, terminal, new AbortController().signal))?.isCluster
  }
  const [cluster, single] = await Promise.all([RedisCluster.start(), RedisServer.start()])
  for (const [server, expected] of [
    [cluster.nodes[0], true],
    [single, false],
  ] as const) {
    const admin = server.client()
    await admin.call('ACL', 'SETUSER', 'app', 'on', '>password', '~*', '&*', '+@all', '-info')
    expect(await isCluster(`redis://app:password@127.0.0.1:${server.port}`)).toBe(expected)
    expect(await isCluster(`redis://127.0.0.1:${server.port}`)).toBe(expected)
  }
  await Promise.all([cluster.stop(), single.stop()])
}, 60_000)
