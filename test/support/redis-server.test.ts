import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { afterEach, describe, expect, test } from '@jest/globals'
import { childProgram } from './child-program.js'
import { eventually } from './redis-process.js'
import { RedisServer } from './redis-server.js'

describe('a Redis server for tests', () => {
  const servers: RedisServer[] = []
  const start = async (args: string[] = []) => {
    const server = await RedisServer.start({ args })
    servers.push(server)
    return server
  }
  afterEach(() => Promise.all(servers.splice(0).map(server => server.stop())))

  test('answers as soon as it is started, and starts in well under a second', async () => {
    const before = performance.now()
    const redis = await start()
    expect(performance.now() - before).toBeLessThan(1000)
    expect(await redis.client().ping()).toBe('PONG')
  })

  test('several started at once get ports of their own', async () => {
    const started = await Promise.all([start(), start(), start(), start()])
    expect(new Set(started.map(redis => redis.port)).size).toBe(4)
    for (const redis of started) expect(await redis.client().info('server')).toContain(`process_id:${redis.pid}`)
  })

  test('it is silent while paused, and answers the commands of that time when unpaused', async () => {
    const redis = await start()
    const client = redis.client()
    await client.ping()
    redis.pause()
    let answered = false
    const reply = client.ping().then(text => {
      answered = true
      return text
    })
    // As long as an answer would take to come.
    await new Promise(done => setTimeout(done, 100))
    expect(answered).toBe(false)
    redis.unpause()
    expect(await reply).toBe('PONG')
  })

  test('killed and restarted it is empty, on the same port', async () => {
    const redis = await start()
    await redis.client().set('k', '1')
    await redis.kill()
    const refused = redis.client({ retryStrategy: () => null, maxRetriesPerRequest: 0 })
    await expect(refused.ping()).rejects.toThrow()
    await redis.restart()
    expect(await redis.client().get('k')).toBeNull()
  })

  test('with an append-only file it remembers over a restart', async () => {
    const redis = await start(['--appendonly', 'yes', '--appendfsync', 'always'])
    await redis.client().set('k', '1')
    await redis.restart()
    expect(await redis.client().get('k')).toBe('1')
  })

  test('stopped it leaves neither process nor folder, even from a pause', async () => {
    const redis = await start()
    redis.pause()
    await redis.stop()
    expect(() => process.kill(redis.pid, 0)).toThrow('ESRCH')
    expect(existsSync(redis.dir)).toBe(false)
  })

  test('a setting that Redis refuses rejects with the message of Redis', async () => {
    await expect(start(['--no-such-setting', '1'])).rejects.toThrow(/no-such-setting/)
  })

  test('ends when the process that started it is killed outright', async () => {
    const program = childProgram(`
      import { RedisServer } from './test/support/redis-server.ts'
      const { pid, dir } = await RedisServer.start()
      console.log(JSON.stringify({ pid, dir }))
      setInterval(() => {}, 1000)`)
    const parent = spawn(process.execPath, [program], { stdio: ['ignore', 'pipe', 'inherit'] })
    const line = await new Promise<string>(done => parent.stdout.once('data', data => done(String(data))))
    const { pid, dir } = JSON.parse(line)
    process.kill(pid, 0)
    parent.kill('SIGKILL')
    await eventually('the server is gone', async () => {
      try {
        process.kill(pid, 0)
        return false
      } catch {
        return !existsSync(dir)
      }
    })
  })
})
