import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { RedisStore } from '../../src/redis/store/redis-store.js'
import { monitor } from '../support/monitor.js'
import { eventually } from '../support/redis-process.js'
import { testRedis } from '../support/test-redis.js'

const page = readFileSync(join(__dirname, '../../docs/architecture.md'), 'utf8')

const redis = testRedis()

test('the page shows the command that one decision sends, and what the script runs', async () => {
  const client = redis.client()
  const limiter = new RateLimiter({ policy: '100/1m', name: 'api', store: new RedisStore(client), deadline: '5s' })
  // Before, the server knows neither the script nor the client its clock.
  await limiter.consume('203.0.113.7')
  const sent: string[][] = []
  const stop = await monitor(redis.port, ({ args }) => sent.push(args))
  await limiter.consume('203.0.113.7')
  await client.echo('done')
  await eventually('all is seen', async () => sent.some(([name]) => name === 'echo'))
  sent.pop()
  stop()

  const [block = ''] = /^EVALSHA <sha1[\s\S]*?(?=^```)/m.exec(page) ?? []
  const [, ...lines] = block.trimEnd().split('\n')
  const told = lines.flatMap(line => line.trim().split(/ {2,}/)[0].split(' '))
  const [command = [], ...inside] = sent
  expect(command[0]).toBe('evalsha')
  expect(command.slice(2).map((text, i) => (i === 4 ? text.replace(/^\d{13}$/, '<until>') : text))).toEqual([
    '3',
    ...told.map(text => (text === "''" ? '' : text)),
  ])
  const commands = inside.map(([name]) => name.toUpperCase())
  expect(commands).toEqual(['TIME', 'EXISTS', 'LRANGE', 'LINDEX', 'PTTL', 'RPUSH'])
})
