import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from '@jest/globals'
import { testRedis } from '../../test/support/test-redis.js'
import { plain } from './server/reply.js'

const redis = testRedis()

/**
 * Gives a script the time of the schedule, which is far in the future: keys expire by it alone; and its listeners, whom
 * a line counts. '!now': the moment as seconds, the microseconds of its second, and the moment in ms; then how many
 * heard each message.
 */
const IN_TIME = `
local theirs = redis
local redis = { error_reply = theirs.error_reply, status_reply = theirs.status_reply }
do
  local seconds, micros, ms, listeners = string.match(theirs.call('GET', '!now'), '(%d+) (%d+) (%d+)(.*)')
  ms = tonumber(ms)
  local heard = string.gmatch(listeners, '%d+')
  local function expire(act, key, at)
    if at <= ms then return act('DEL', key) end
    return act('PEXPIREAT', key, string.format('%.0f', at))
  end
  local function in_time(act)
    return function(name, ...)
      local key, value, option, life = ...
      if name == 'TIME' then return { seconds, micros } end
      if name == 'PUBLISH' then return tonumber(heard()) end
      if name == 'PTTL' then
        local at = theirs.call('PEXPIRETIME', key)
        return at < 0 and at or at - ms
      end
      if name == 'PEXPIRE' then return expire(act, key, ms + tonumber(value)) end
      if name == 'PEXPIREAT' then return expire(act, key, tonumber(value)) end
      if name == 'SET' and (option == 'PX' or option == 'PXAT') then
        local at = tonumber(life) + (option == 'PX' and ms or 0)
        local reply = act('SET', key, value)
        expire(act, key, at)
        return reply
      end
      return act(name, ...)
    end
  end
  redis.call, redis.pcall = in_time(theirs.call), in_time(theirs.pcall)
  for i = 1, #KEYS do
    local at = theirs.call('PEXPIRETIME', KEYS[i])
    if at >= 0 and at < ms then theirs.call('DEL', KEYS[i]) end
  end
end
`

type Run = readonly [nowMs: number, source: string, keys: string[], args: string[], reply: unknown, heard: number[]]

it('answers all scripts of some schedules as Redis does', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'spillway-simulation-'))
  const record = join(folder, 'runs')
  const args = ['verification/simulation/simulate.mjs', '--seed', '100', '--schedules', '8', '--record', record]
  await promisify(execFile)(process.execPath, args)
  const runs = readFileSync(record, 'utf8')
    .split('\n')
    .map(line => JSON.parse(line) as Run | readonly [])
  rmSync(folder, { recursive: true })
  const client = redis.client({ protocol: 2 })
  const bytes = (text: string) => Buffer.from(text, 'latin1')
  const hashes = new Map<string, string>()
  for (const [, source] of runs) {
    if (source === undefined || hashes.has(source)) continue
    hashes.set(
      source,
      createHash('sha1')
        .update(IN_TIME + source, 'latin1')
        .digest('hex'),
    )
    await client.callBuffer('SCRIPT', 'LOAD', bytes(IN_TIME + source))
  }
  const pipeline = client.pipeline()
  for (const run of runs) {
    if (run.length === 0) {
      pipeline.flushall().ping()
      continue
    }
    const [nowMs, source, keys, args, , heard] = run
    const isFlush = args[0]?.toUpperCase() === 'FLUSHALL'
    const ms = Math.floor(nowMs)
    const now = [Math.floor(ms / 1000), Math.floor((nowMs % 1000) * 1000), ms, ...heard]
    pipeline.set('!now', now.join(' '))
    if (isFlush) pipeline.flushall()
    else
      pipeline.callBuffer('EVALSHA', hashes.get(source) as string, keys.length, ...keys.map(bytes), ...args.map(bytes))
  }
  const replies = (await pipeline.exec()) ?? []
  for (const [i, run] of runs.entries()) {
    if (run.length === 0) continue
    const [, source, keys, args, reply] = run
    const [error, value] = replies[2 * i + 1]
    // Which error a script meets is the same; where it stands in the script is not.
    const said = JSON.stringify(plain(error ?? value)).replace(/user_script:\d+: /, '')
    const ours = JSON.stringify(reply).replace(/user_script:\d+: /, '')
    if (said !== ours) expect([i, source, keys, args, said]).toEqual([i, source, keys, args, ours])
  }
  expect(hashes.size).toBeGreaterThan(12)
}, 60_000)
