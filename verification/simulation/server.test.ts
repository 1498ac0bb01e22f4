import { beforeAll, expect, it } from '@jest/globals'
import { randomFrom } from '../../test/support/random.js'
import { testRedis } from '../../test/support/test-redis.js'
import { Database } from './server/commands.js'
import { EmbeddedRedis } from './server/embedded-redis.js'
import { Lua } from './server/lua.js'
import { plain, type Reply } from './server/reply.js'

const redis = testRedis()
let lua: Lua
beforeAll(async () => {
  lua = await Lua.create()
})

const FAR = 4_000_000_000_000

function randomCommand(seed: string): string[] {
  const random = randomFrom(seed)
  const some = (most: number, make: () => string) => Array.from({ length: random.integer(1, most) }, make)
  const key = () => random.pick(['a', 'b', 'c', 'd'])
  const member = () => random.pick(['', 'm', 'n', '~', '!x', '10', '9', 'x\n'])
  const score = () =>
    random.pick(['0', '-1', '1', '1.5', '3', '4e15', '1e300', '0.1', 'inf', '-inf', '12345678901234567'])
  const bound = () => random.pick(['', '', '(']) + score()
  const index = () => String(random.integer(-4, 4))
  const maybe = (...words: string[]) => (random.integer(0, 1) === 0 ? [] : words)
  const limit = () => maybe('LIMIT', String(random.integer(0, 2)), String(random.integer(-1, 2)))
  const scores = () => maybe('WITHSCORES')
  const flags = () => random.pick([[], [], ['NX'], ['XX'], ['XX', 'CH'], ['CH'], ['GT'], ['LT', 'CH']])
  return random.pick<() => string[]>([
    () => [random.pick(['DEL', 'UNLINK', 'EXISTS', 'MGET']), ...some(3, key)],
    () => [random.pick(['TYPE', 'GET', 'HGETALL', 'HVALS', 'HLEN', 'LLEN', 'ZCARD', 'PERSIST', 'PTTL']), key()],
    () => ['RENAME', key(), key()],
    () => ['PEXPIREAT', key(), random.pick([String(FAR), '5', 'x'])],
    () => ['PEXPIRETIME', key()],
    () => ['SET', key(), member(), ...random.pick([[], ['KEEPTTL'], ['PXAT', String(FAR)], ['ODD']])],
    () => ['SETRANGE', key(), String(random.integer(0, 4)), member()],
    () => ['INCRBY', key(), random.pick(['1', '-3', 'x'])],
    () => [
      'HSET',
      key(),
      ...some(3, member).flatMap(field => [field, random.pick(['0', '-1', '1.5', 'x', '9007199254740000'])]),
    ],
    () => [random.pick(['HMGET', 'HDEL']), key(), ...some(3, member)],
    () => [random.pick(['HGET', 'HEXISTS']), key(), member()],
    () => ['HINCRBY', key(), member(), '2'],
    () => [random.pick(['LPUSH', 'RPUSH']), key(), ...some(3, member)],
    () => [random.pick(['LPOP', 'RPOP']), key(), ...maybe(String(random.integer(1, 3)))],
    () => [random.pick(['LRANGE', 'LTRIM', 'ZRANGE', 'ZREMRANGEBYRANK']), key(), index(), index()],
    () => ['LINDEX', key(), index()],
    () => ['LSET', key(), index(), member()],
    () => ['ZADD', key(), ...flags(), ...some(4, member).flatMap(one => [score(), one])],
    () => ['ZADD', key(), ...some(4, member).flatMap(one => [score(), one])],
    () => [random.pick(['ZREM', 'ZMSCORE']), key(), ...some(3, member)],
    () => [random.pick(['ZSCORE', 'ZRANK']), key(), member()],
    () => [random.pick(['ZCOUNT', 'ZREMRANGEBYSCORE']), key(), bound(), bound()],
    () => [random.pick(['ZRANGEBYSCORE', 'ZREVRANGEBYSCORE']), key(), bound(), bound(), ...scores(), ...limit()],
    () => ['ZRANGE', key(), bound(), bound(), 'BYSCORE', ...limit(), ...scores()],
    () => ['ZRANGE', key(), index(), index(), ...scores()],
    () => ['ZPOPMIN', key()],
  ])()
}

it('answers random commands as Redis does', async () => {
  const client = redis.client({ protocol: 2 })
  const database = new Database(() => Date.now())
  const commands = Array.from({ length: 4000 }, (_, i) => randomCommand(`commands ${i}`))
  const pipeline = client.pipeline()
  for (const words of commands) pipeline.callBuffer(...(words as [string, ...string[]]))
  const theirs = (await pipeline.exec()) ?? []
  for (const [i, words] of commands.entries()) {
    const sorted = words[0] === 'HGETALL' || words[0] === 'HVALS'
    const [ours, real] = [database.run(words), theirs[i][0] ?? theirs[i][1]].map(plain)
    const compared = (reply: unknown) => (sorted && Array.isArray(reply) ? [...reply].sort() : reply)
    const time = /^PTTL$/.test(words[0]) && Number(ours) > 0 && Number(real) > 0
    if (!time) expect([i, words, compared(ours)]).toEqual([i, words, compared(real)])
  }
})

it('runs Lua as Redis does: numbers, texts, errors, struct and cmsgpack', async () => {
  const client = redis.client({ protocol: 2 })
  const server = new EmbeddedRedis(lua, () => Date.now())
  const scripts = [
    'return { 1, 2.9, -2.9, "x", true, false, "behind" }',
    'return { tostring(1), tostring(0.1), tostring(1e15), tostring(1e17), string.format("%.17g %.0f %s", 0.1, 1e15, 3), 10 % 3, -1 % 3 }',
    'return { KEYS[1], ARGV[1], #ARGV, ARGV[3] or "none" }',
    'return redis.error_reply("ODD thing")',
    'return redis.status_reply("FINE")',
    'return redis.call("HGET", "text", "x")',
    'local reply = redis.pcall("HGET", "text", "x") return { reply.err }',
    'local done, failure = pcall(function() redis.call("HGET", "text", "x") end) return { tostring(done), type(failure), failure.err }',
    'error("CALENDAR 12", 0)',
    'redis.call("ZADD", KEYS[1], 0.1, "a", 1e15, "b", 12345678901234567, "c") return redis.call("ZRANGE", KEYS[1], 0, -1, "WITHSCORES")',
    'redis.call("SET", KEYS[1], 1e20) return { redis.call("GET", KEYS[1]), redis.call("SET", KEYS[1], 2 ^ 53), redis.call("GET", KEYS[1]) }',
    'return { struct.pack(">I7I7I7B", 1764338000123, 2 ^ 40, 0, 1), struct.pack("<ddddd", 0.1, -2, 1e300, 0, 5), struct.pack(">I6I2", 2 ^ 47, 65535) }',
    'return { struct.unpack(">I7I7I7B", struct.pack(">I7I7I7B", 1764338000123, 2 ^ 40, 0, 1)) }',
    'return { struct.unpack("<dI4", struct.pack("<dI4", 7, 2 ^ 31), 1) }',
    'return cmsgpack.pack({ 1, -1, 127, 128, 255, 256, 65535, 65536, -32, -33, -128, -129, -32768, -32769, 2 ^ 31, 2 ^ 32, -2 ^ 31 - 1, 0.5, 0.1, 2 ^ 53 })',
    'return cmsgpack.pack({ {}, false, true, "", string.rep("x", 31), string.rep("x", 32), string.rep("x", 300), { a = { 1 } } })',
    'local list = {} for i = 1, 40 do list[i] = i * 1000 end return cmsgpack.unpack(cmsgpack.pack(list))',
    'local t = cmsgpack.unpack(cmsgpack.pack({ a = { 1, "x", 0.5, -70000 }, b = string.rep("y", 300) })) return { t.a[1], t.a[2], tostring(t.a[3]), t.a[4], t.b }',
  ]
  await client.set('text', 'x')
  server.execute(['SET', 'text', 'x'])
  for (const script of scripts) {
    const words = ['EVAL', script, '1', 'key', 'one', 'two']
    const ours = plain(server.execute(words) as Reply)
    const real = await client.callBuffer(...(words as [string, ...string[]])).catch(error => error)
    expect([script, ours]).toEqual([script, plain(real)])
  }
})
