import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { portOf } from '../../../src/redis/clients.js'
import { LuaScript } from '../../../src/redis/script.js'
import { TimelyScripts } from '../../../src/redis/timely-scripts.js'
import { RedisServer } from '../../support/redis-server.js'
import { root } from '../files.js'

/** As a new file of lua/limiter/: a header, ARGV in named locals, library functions by their names, and nothing after its last moment. */
const SCRIPT = `--[[
  Counts a visit.

  KEYS[1]  how often: a number
  ARGV[1]  now, ms; '' for the server's clock
  ARGV[2]  how long the number is kept after the last visit, ms
  ARGV[3]  last: until when this may be carried out, ms

  Returns now, and nothing else, if it came too late; else now and the number.
]]
local clock = ARGV[1]
local life = tonumber(ARGV[2])
local now = now_ms(clock)
if is_late(now) then return { now } end
local visits = redis.call('INCR', KEYS[1])
redis.call('PEXPIREAT', KEYS[1], expiry(clock, now)(life))
return { now, visits }
`

let redis: RedisServer
let folder: string
beforeAll(async () => {
  redis = await RedisServer.start()
  folder = mkdtempSync(join(tmpdir(), 'spillway-recipe-'))
})
afterAll(async () => {
  rmSync(folder, { recursive: true })
  await redis.stop()
})

test('a script that is added by the recipe runs in time, or not at all', async () => {
  cpSync(join(root, 'lua'), join(folder, 'lua'), { recursive: true })
  writeFileSync(join(folder, 'lua/limiter/count_visit.lua'), SCRIPT)
  const embed = ['--import', 'tsx', join(root, 'scripts/embed-lua.ts'), folder]
  const { status, stderr } = spawnSync(process.execPath, embed, { encoding: 'utf8', cwd: root })
  expect([status, stderr]).toEqual([0, ''])

  const module = readFileSync(join(folder, 'src/redis/scripts.ts'), 'utf8')
  const code = module.replace(/^import .*$/m, '').replace(/export const (\w+) =/g, 'exports.$1 =')
  const exports: Record<string, LuaScript> = {}
  new Function('exports', 'LuaScript', code)(exports, LuaScript)
  const client = redis.client()
  const scripts = TimelyScripts.of(portOf(client, 'this test'))
  const visit = (endsAt: number) =>
    scripts.run({
      script: exports.countVisit,
      keys: ['visits'],
      args: until => ['', '60000', until],
      endsAt,
      server: '',
      byServerClock: true,
    })

  expect(await visit(performance.now() + 5000)).toEqual([expect.any(Number), 1])
  expect(await visit(performance.now() + 5000)).toEqual([expect.any(Number), 2])
  await expect(visit(performance.now() - 1000)).rejects.toThrow('asked too late')
  expect(await client.get('visits')).toBe('2')
  expect(await client.pttl('visits')).toBeGreaterThan(60_000)
})
