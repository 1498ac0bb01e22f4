import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { beforeAll, describe, expect, jest, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import type { Finding, State } from '../../src/operating/cli/doctor/diagnosis.js'
import { examine } from '../../src/operating/cli/doctor/doctor-command.js'
import { readAddress } from '../../src/operating/cli/redis-address.js'
import { spawnSpillway } from '../../test/operating/cli/spawn-spillway.js'
import { eventually } from '../../test/support/eventually.js'
import { RedisCluster } from '../../test/support/redis-cluster.js'
import { RedisServer } from '../../test/support/redis-server.js'
import { TcpProxy } from '../../test/support/tcp-proxy.js'
import { testRedis } from '../../test/support/test-redis.js'

jest.setTimeout(60_000)

const redis = testRedis()
let admin: Redis
beforeAll(() => {
  admin = redis.client()
})

const never = new AbortController().signal
const look = (url: string, answerMs = 2000) =>
  examine({ ...readAddress(url), certificates: {} }, 'spillway', { answerMs, interrupted: never })
const of = (findings: readonly Finding[], subject: string) => findings.filter(finding => finding.subject === subject)

async function expectOne(subject: string, state: State, text: string | RegExp, url = redis.url): Promise<Finding> {
  const found = of(await look(url), subject)
  expect(found).toEqual([expect.objectContaining({ state, text: expect.stringMatching(text) })])
  return found[0]
}

async function under(settings: Record<string, string>, work: () => Promise<unknown>): Promise<void> {
  const before = await Promise.all(Object.keys(settings).map(name => admin.config('GET', name) as Promise<string[]>))
  for (const [name, value] of Object.entries(settings)) await admin.config('SET', name, value)
  try {
    await work()
  } finally {
    for (const [name, value] of before) await admin.config('SET', name, value)
  }
}

describe('the command', () => {
  test('prints its findings with remedies, and exits with 0 if there is no problem', async () => {
    const { exitCode, stdout, stderr } = await spawnSpillway(['doctor', '--redis', redis.url])
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
    expect(stdout).toMatch(/^redis:\/\/127\.0\.0\.1:\d+\n\nok {7}version {6}Redis \d/)
    expect(stdout).toMatch(/\nwarning {2}memory {7}no maxmemory.*\n.*→ set maxmemory/s)
    expect(stdout).toMatch(/\n\n0 problems, 2 warnings \(\d+\.\d s\)\n$/)
    for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(100)
  })

  test('--json prints one object, and the exit code of a problem is 1', async () => {
    await under({ maxmemory: '100mb', 'maxmemory-policy': 'allkeys-lru' }, async () => {
      const { exitCode, stdout } = await spawnSpillway(['doctor', '--redis', redis.url, '--json'])
      expect(exitCode).toBe(1)
      const { redis: url, ok, findings, tookMs } = JSON.parse(stdout)
      expect({ url, ok }).toEqual({ url: redis.url, ok: false })
      expect(tookMs).toBeGreaterThan(0)
      expect(of(findings, 'memory')).toEqual([
        { subject: 'memory', state: 'problem', text: expect.any(String), remedy: 'set maxmemory-policy noeviction' },
      ])
    })
  })

  test.each<[string[], string]>([
    [[], 'given no --redis and no REDIS_URL, expected a URL, like: spillway doctor --redis redis://127.0.0.1:6379'],
    [['--redis', 'http://user:secret@host'], '--redis: given something else, expected a URL like redis://'],
    [['--redis', 'redis://:secret@host/secret'], '--redis: the part after the last / is not the number of a database'],
    [['redis://:secret@host'], 'given 1 words too many, expected --redis URL'],
    [['--redis', 'redis://h', '--prefix', ''], '--prefix: given nothing'],
  ])('%j ends with 2, in a line without any password', async (args, message) => {
    const { exitCode, stdout, stderr } = await spawnSpillway(['doctor', ...args])
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' })
    expect(stderr).toContain(`spillway doctor: ${message}`)
    expect(stderr).not.toContain('secret')
  })

  test('a server that hangs is a problem, reported within a few seconds', async () => {
    redis.pause()
    try {
      const startedAt = performance.now()
      const { exitCode, stdout } = await spawnSpillway(['doctor', '--redis', redis.url])
      expect(exitCode).toBe(1)
      expect(stdout).toMatch(/problem {2}server {7}it did not answer PING within 2000 ms/)
      expect(performance.now() - startedAt).toBeLessThan(10_000)
    } finally {
      redis.unpause()
    }
  })
})

test.each([
  ['redis://127.0.0.1', { host: '127.0.0.1', port: 6379, tls: false, db: 0 }],
  ['rediss://h:1/2', { host: 'h', port: 1, tls: true, db: 2 }],
  ['redis://[::1]:7', { host: '::1', port: 7 }],
  ['redis://u:p%2F%40@h', { username: 'u', password: 'p/@' }],
  ['redis://:100%@h', { username: undefined, password: '100%' }],
])('%s is read as an address', (text, address) => {
  expect(readAddress(text)).toMatchObject(address)
})

describe('it sees', () => {
  test('which eviction policies are reported', async () => {
    const full = { maxmemory: '100mb' }
    await under({ ...full, 'maxmemory-policy': 'noeviction' }, () => expectOne('memory', 'ok', 'noeviction'))
    await under({ ...full, 'maxmemory-policy': 'volatile-ttl' }, () => expectOne('memory', 'warning', 'evicted first'))
    await under({ ...full, 'maxmemory-policy': 'allkeys-lfu' }, () => expectOne('memory', 'problem', 'any key'))
    // Without a maxmemory nothing is evicted.
    await under({ maxmemory: '0', 'maxmemory-policy': 'allkeys-lru' }, () =>
      expectOne('memory', 'warning', 'no maxmemory'),
    )
  })

  test('a memory that is full, and what fails then', async () => {
    await under({ maxmemory: '1' }, async () => {
      const findings = await look(redis.url)
      expect(of(findings, 'memory')).toMatchObject([
        { state: 'problem', text: expect.stringContaining('refuses to write') },
      ])
      expect(of(findings, 'scripts')).toMatchObject([{ state: 'problem', remedy: 'free memory or raise maxmemory' }])
    })
  })

  test('what is saved', async () => {
    await expectOne('persistence', 'warning', 'none')
    await under({ save: '3600 1' }, () => expectOne('persistence', 'ok', 'snapshots'))
    await under({ appendonly: 'yes' }, () => expectOne('persistence', 'ok', 'appendonly'))
  })

  test('whether idle connections are closed and dead ones kept', async () => {
    await under({ timeout: '60', 'tcp-keepalive': '0' }, async () => {
      expect(of(await look(redis.url), 'connections').map(({ text }) => text.split(':')[0])).toEqual([
        'timeout 60',
        'tcp-keepalive 0',
      ])
    })
  })

  test('a replica, and does not try to write to it', async () => {
    const replica = await RedisServer.start({ args: ['--replicaof', redis.host, String(redis.port)] })
    await expectOne('role', 'problem', `a replica of 127.0.0.1:${redis.port}`, replica.url)
    expect(of(await look(replica.url), 'scripts')).toEqual([])
    await replica.stop()
  })

  test('latency that leaves nothing of the deadline', async () => {
    const proxy = await TcpProxy.start(redis.port)
    proxy.delayMs = () => 60
    await expectOne('latency', 'problem', /^PING takes \d+\.\d ms/, `redis://127.0.0.1:${proxy.port}`)
    await proxy.stop()
  })

  test('keys of limits without a lifetime, and no other', async () => {
    const limiter = new RateLimiter({ policy: '5/1h;9/1h token-bucket', store: new RedisStore(admin), deadline: '5s' })
    for (let i = 0; i < 20; i++) await limiter.consume(`user ${i}`)
    await admin.set('spillway:queue:mails', 'x')
    await admin.set('other:{x}:default:5/sw3600000', 'x')
    await expectOne('lifetimes', 'ok', '40 keys of limits looked at, all')
    await admin.persist((await admin.keys('spillway:{user 7}:*/sw*'))[0])
    await expectOne('lifetimes', 'warning', /^1 of 40 keys .* spillway:\{user 7\}/)
    await admin.flushall()
  })

  test('commands that blocked the server', async () => {
    await admin.eval(
      "local t = redis.call('TIME') repeat local n = redis.call('TIME') until (n[1] - t[1]) * 1e6 + n[2] - t[2] > 80000",
      0,
    )
    await expectOne('slowness', 'warning', /^1 commands of the last hour .* \(eval\)/i)
    await admin.slowlog('RESET')
  })

  test('a script that runs for too long', async () => {
    await under({ 'busy-reply-threshold': '50' }, async () => {
      const endless = redis.client().eval('while true do end', 0)
      const ended = expect(endless).rejects.toThrow('killed')
      try {
        await eventually('busy', () =>
          admin.ping().then(
            () => false,
            error => error.message.startsWith('BUSY'),
          ),
        )
        expect(await look(redis.url)).toMatchObject([{ subject: 'server', text: expect.stringContaining('BUSY') }])
      } finally {
        await admin.script('KILL')
        // KILL only asks the script to end, and all is BUSY until it has.
        await ended
      }
    })
  })
})

/** The commands of the block in docs/operating.md. */
const LEAST = (/^ACL SETUSER app ([\s\S]*?)^```/m.exec(readFileSync('docs/operating.md', 'utf8'))?.[1] ?? '')
  .split(/\s+/)
  .filter(rule => /^[+-]/.test(rule))

describe('permissions', () => {
  const grant = (...rules: string[]) => admin.call('ACL', 'SETUSER', 'app', 'reset', 'on', '>s3cret', ...rules)
  const url = () => `redis://app:s3cret@127.0.0.1:${redis.port}`

  test('a password that is wrong, or lacking', async () => {
    await grant('~*', '&*', '+@all')
    await expectOne('server', 'problem', 'WRONGPASS', `redis://app:wrong@127.0.0.1:${redis.port}`)
    await under({ requirepass: 'x' }, async () => {
      await expectOne('server', 'problem', 'NOAUTH')
    })
  })

  test.each([
    ['+@all -evalsha', 'peek, consume, settle', "'evalsha' command"],
    ['+@all -eval', 'peek, consume', "'eval' command"],
    ['+@all -zadd', 'block', "can't run this command"],
    ['+@all -publish', 'acquire: ', "can't run this command"],
    ['+@all -set', 'consume', "can't run this command"],
  ])('%s', async (rules, deeds, reason) => {
    await admin.script('FLUSH')
    await grant('~spillway:*', '&spillway!turns:*', ...rules.split(' '))
    const { text, remedy } = await expectOne('scripts', 'problem', reason, url())
    expect(text).toContain(deeds)
    expect(remedy).toContain('Permissions')
  })

  test('keys of another prefix, and channels', async () => {
    await grant('~other:*', '&other:*', '+@all')
    const findings = await look(url())
    expect(of(findings, 'scripts')).toMatchObject([{ state: 'problem' }])
    expect(of(findings, 'channels')).toMatchObject([{ state: 'warning' }])
  })

  test('the least permissions are sufficient; checks without permission are reported as unseen', async () => {
    await grant('~spillway:*', '&spillway!turns:*', ...LEAST)
    const findings = await look(url())
    expect(findings.filter(({ state }) => state === 'warning' || state === 'problem')).toEqual([])
    expect(of(findings, 'scripts')).toMatchObject([{ state: 'ok' }])
    expect(of(findings, 'channels')).toMatchObject([{ state: 'ok' }])
    expect(of(findings, 'memory')).toMatchObject([{ state: 'unseen' }])
  })
})

test('every primary of a cluster is examined, and slots without a node are a problem', async () => {
  const cluster = await RedisCluster.start()
  const [first, second] = cluster.nodes
  const well = await look(first.url)
  expect(of(well, 'cluster')).toMatchObject([{ state: 'ok', text: expect.stringContaining('3 primaries') }])
  expect(of(well, 'scripts')).toMatchObject([{ state: 'ok' }])
  await second.client().config('SET', 'timeout', '9')
  const { port } = second
  expect(of(await look(first.url), 'connections')).toMatchObject([
    { state: 'ok' },
    { state: 'warning', node: `127.0.0.1:${port}` },
  ])
  await first.client().call('CLUSTER', 'DELSLOTS', 0)
  expect(of(await look(first.url), 'cluster')[0]).toMatchObject({
    state: 'problem',
    text: expect.stringMatching(/^1 of 16384/),
  })
  await cluster.stop()
})

describe('a server that is not Redis, or is absent', () => {
  let server: Server | undefined
  const listening = async (greeting: string) => {
    server = createServer(socket => {
      socket.on('error', () => {})
      socket.end(greeting)
    })
    await new Promise<void>(done => server?.listen(0, '127.0.0.1', done))
    return `redis://127.0.0.1:${(server.address() as { port: number }).port}`
  }
  test.each([
    ['HTTP/1.1 400 Bad Request\r\n\r\n', 'its reply is not in the protocol of Redis'],
    ['', 'it closed the connection'],
  ])('%j', async (greeting, reason) => {
    await expectOne('server', 'problem', reason, await listening(greeting))
    server?.close()
  })

  test('nobody listens', async () => {
    await expectOne('server', 'problem', 'connection refused', 'redis://127.0.0.1:1')
  })
})
