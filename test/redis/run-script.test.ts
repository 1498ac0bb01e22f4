import { createHash } from 'node:crypto'
import { describe, expect, test } from '@jest/globals'
import type { ClientPort } from '../../src/redis/client.js'
import { portOf } from '../../src/redis/clients.js'
import { runScript } from '../../src/redis/script.js'
import * as embedded from '../../src/redis/scripts.js'
import { testRedis } from '../support/test-redis.js'

const script = {
  name: 'count',
  source: "return { redis.call('INCRBY', KEYS[1], ARGV[1]), KEYS[2], ARGV[2] }",
  sha1: '',
}
script.sha1 = createHash('sha1').update(script.source).digest('hex')

describe('to run a script', () => {
  const redis = testRedis()

  test('sends the text only if the server does not know it, and runs the script once each time', async () => {
    const client = redis.client()
    const port = portOf(client, 'test')
    const sent: string[] = []
    const watched: ClientPort = {
      ...port,
      evalsha: (...args) => {
        sent.push('hash')
        return port.evalsha(...args)
      },
      eval: (...args) => {
        sent.push('text')
        return port.eval(...args)
      },
    }
    const run = () => runScript(watched, script, ['k', 'other'], ['2', 'x'])
    expect(await run()).toEqual([2, 'other', 'x'])
    expect(await run()).toEqual([4, 'other', 'x'])
    await client.script('FLUSH')
    expect(await run()).toEqual([6, 'other', 'x'])
    expect(sent).toEqual(['hash', 'text', 'hash', 'hash', 'text'])
  })

  test('many scripts at once run once each, even if the server forgets them', async () => {
    const client = redis.client()
    const port = portOf(client, 'test')
    await client.script('FLUSH')
    await Promise.all(Array.from({ length: 100 }, () => runScript(port, script, ['many', ''], ['1', ''])))
    expect(await client.get('many')).toBe('100')
  })

  test.each([
    ['ERR wrong number of arguments', 1],
    ['WRONGTYPE Operation against a key', 1],
    ['OOM command not allowed', 1],
    ["READONLY You can't write against a read only replica.", 1],
    ['LOADING Redis is loading the dataset in memory', 1],
    ['BUSY Redis is busy running a script', 1],
    ['the hash is NOSCRIPT', 1],
    ['Connection is closed.', 1],
    ['MOVED 1 127.0.0.1:1', 2],
    ['ASK 1 127.0.0.1:1', 2],
  ])('passes an error "%s" on after %d calls, because running again might charge twice', async (message, calls) => {
    let asked = 0
    const error = new Error(message)
    const refuse = () => {
      asked++
      return Promise.reject(error)
    }
    const port = { evalsha: refuse, eval: refuse }
    await expect(runScript(port as unknown as ClientPort, script, [], [])).rejects.toBe(error)
    expect(asked).toBe(calls)
  })

  test('treats a client that throws like one that rejects', async () => {
    const port = {
      evalsha() {
        throw new Error('thrown')
      },
    }
    await expect(runScript(port as unknown as ClientPort, script, [], [])).rejects.toThrow('thrown')
  })

  test('every embedded script is known by its own hash, and the server can compile it', async () => {
    const client = redis.client()
    const { consumeRow, ...others } = embedded
    for (const { name, source, sha1 } of [...Object.values(others), ...Object.values(consumeRow)]) {
      expect([name, createHash('sha1').update(source).digest('hex')]).toEqual([name, sha1])
      expect([name, await client.script('LOAD', source)]).toEqual([name, sha1])
    }
  })
})
