import { mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from '@jest/globals'
import { eventually } from '../../support/eventually.js'
import { freePort } from '../../support/free-port.js'
import { RedisServer } from '../../support/redis-server.js'
import { spawnSpillway } from './spawn-spillway.js'

/** The working folders of all processes, where the system tells them. */
function foldersInUse(): string[] {
  const processes = process.platform === 'linux' ? readdirSync('/proc').filter(name => /^\d+$/.test(name)) : []
  return processes.flatMap(id => {
    try {
      return [readlinkSync(`/proc/${id}/cwd`)]
    } catch {
      return []
    }
  })
}

// Real time: the demo shows how long a decision takes.
describe('spillway demo', () => {
  const elsewhere = mkdtempSync(join(tmpdir(), 'spillway-demo-test-'))
  afterAll(() => rmSync(elsewhere, { recursive: true }))

  test.concurrent('shows a burst, a return and an outage over a Redis of its own, in any folder, without colours in a pipe', async () => {
    let startedAt = 0
    const { exitCode, stdout, stderr } = await spawnSpillway(['demo'], {
      cwd: elsewhere,
      with: child => child.stdout.once('data', () => (startedAt = performance.now())),
    })
    expect(stdout).toContain('the fixed window lets 9 pass within 0.3 s, and spillway 5.')
    expect(stdout).toMatch(/1\.51 s {4}refused .*\n {2}1\.86 s {4}passed {4}at the promised moment/)
    expect(stdout).toMatch(/ 2\.0 s {2}paused {3}this process +25 /)
    expect(stdout).toMatch(/ 3\.0 s {2}answers {2}redis/)
    expect(stdout).toMatch(/npm install spillway\n.*import.*\n.*app\.use\(rateLimit/)
    expect(stdout).not.toContain('\u001b')
    expect([exitCode, stderr]).toEqual([0, ''])
    // From its first line on: before that the test builds the command.
    expect(performance.now() - startedAt).toBeLessThan(10_000)
  }, 60_000)

  test.concurrent('uses the Redis that it is given, and leaves nothing there', async () => {
    const redis = await RedisServer.start()
    const { exitCode, stdout } = await spawnSpillway(['demo', '--redis', redis.url])
    expect(stdout).toContain(`Redis at 127.0.0.1:${redis.port}. A request each`)
    expect(exitCode).toBe(0)
    const client = redis.client()
    expect(await client.keys('*')).toEqual([])
    await redis.stop()
  }, 60_000)

  test.concurrent('without any Redis says how to see the outage', async () => {
    const { exitCode, stdout } = await spawnSpillway(['demo'], { env: { PATH: elsewhere } })
    expect(stdout).toContain('To see it: spillway demo --redis redis://127.0.0.1:6379, or install redis-server.')
    expect(exitCode).toBe(0)
  }, 60_000)

  test.concurrent('without a folder for its own Redis says the same', async () => {
    const { exitCode, stdout, stderr } = await spawnSpillway(['demo'], { env: { TMPDIR: join(elsewhere, 'none') } })
    expect(stdout).toContain('To see it: spillway demo --redis redis://127.0.0.1:6379, or install redis-server.')
    expect([exitCode, stderr]).toEqual([0, ''])
  }, 60_000)

  test.concurrent.each(['SIGTERM', 'SIGHUP'] as const)(
    'ended by %s leaves no server and no folder',
    async signal => {
      const folder = mkdtempSync(join(elsewhere, 'tmp-'))
      const { exitCode, stdout } = await spawnSpillway(['demo'], {
        env: { TMPDIR: folder },
        with: child => {
          let text = ''
          child.stdout.on('data', block => {
            text += block
            if (text.includes('of its own. A request each')) child.kill(signal)
          })
        },
      })
      expect(stdout).not.toContain('In your service')
      expect(exitCode).toBe(null)
      await eventually('the server has ended', () => !foldersInUse().some(path => path.startsWith(folder)))
      expect(readdirSync(folder)).toEqual([])
    },
    60_000,
  )

  test.concurrent('waits two seconds for the Redis that it is given', async () => {
    const port = await freePort()
    const startedAt = performance.now()
    const { exitCode, stderr } = await spawnSpillway(['demo', '--redis', `redis://127.0.0.1:${port}`])
    expect(stderr).toBe(
      `waiting for Redis at 127.0.0.1:${port}: connection refused\n` +
        `spillway demo: Redis at 127.0.0.1:${port} cannot be used: see whether it runs, and its address\n`,
    )
    expect(exitCode).toBe(1)
    expect(performance.now() - startedAt).toBeLessThan(50_000)
  }, 60_000)

  test.concurrent('ends at once by Ctrl-C', async () => {
    const { exitCode, stdout } = await spawnSpillway(['demo'], {
      with: child => child.stdout.once('data', () => child.kill('SIGINT')),
    })
    expect(stdout).toContain('A limit of 5/1s')
    expect(exitCode).toBe(130)
  }, 60_000)

  test.concurrent.each([
    [['demo', '--redis', 'localhost'], '--redis: given something else, expected a URL like'],
    [
      ['demo', '--policy', '5/1s'],
      'unknown option "--policy", expected one of --redis, --cacert, --cert, --key, --help',
    ],
    [['demo', '--redis', 'redis://127.0.0.1:1', 'x'], 'given "x"'],
  ])(
    '%j is told before anything is shown',
    async (args, message) => {
      const { exitCode, stdout, stderr } = await spawnSpillway(args)
      expect(stdout).toBe('')
      expect(stderr).toContain(message)
      expect(exitCode).toBe(2)
    },
    60_000,
  )
})
