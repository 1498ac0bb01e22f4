// The Lua of lua/ as it is written, under Lua 5.1 itself and without Redis.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from '@jest/globals'
import { ALGORITHM_NAMES, type AlgorithmName, type Limit, parseLimit } from '../../../src/limiter/core/limit.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { ManualClock } from '../../../src/testing.js'
import { Lua } from '../../../verification/simulation/server/lua.js'
import type { Reply } from '../../../verification/simulation/server/reply.js'
import { filesOf, root } from '../../check/files.js'
import { ofCases } from '../../support/cases.js'
import { type Random, randomFrom } from '../../support/random.js'
import { START } from '../../support/stories.js'

let lua: Lua
beforeAll(async () => {
  lua = await Lua.create()
  // `require` finds each file as Lua's own would.
  const preload = filesOf('lua', '.lua').map(file => {
    const name = file
      .replace(/^lua\//, '')
      .replace(/\.lua$/, '')
      .replaceAll('/', '.')
    return `package.preload['${name}'] = function()\n${readFileSync(join(root, file), 'utf8')}\nend`
  })
  lua.run('preload', preload.join('\n'), [], [], () => null)
})

const ROWS = ALGORITHM_NAMES.filter(algorithm => algorithm !== 'sliding-window')
const thirdOf = ({ algorithm, burst }: Limit) => (algorithm.endsWith('bucket') ? String(burst) : '')

/** What `measure` answers: retry, remaining, reset, delay, and the row after it. */
function measured(limit: Limit, now: number, cost: number, row: readonly number[]): number[] {
  const name = limit.algorithm.replace('-', '_')
  const source = `
    local n = {}
    for i = 1, 8 do n[i] = tonumber(ARGV[i]) end
    local measure = require('limiter.algorithms.${name}').measure
    return { measure(n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8]) }`
  const [at = '', first = 0, second = 0] = row
  const args = [limit.quota, limit.windowMs, thirdOf(limit), now, cost, at, first, second].map(String)
  return lua.run(`measure ${name}`, source, [], args, () => null) as number[]
}

const limitOf = (algorithm: AlgorithmName, random: Random) =>
  parseLimit({
    quota: random.integer(1, 20),
    window: random.pick([1, 7, 100, 1000, 60_000]),
    algorithm,
    ...(algorithm.endsWith('bucket') && { burst: random.integer(1, 30) }),
  })

describe('measure', () => {
  test('of a fixed window reads like a story', () => {
    const limit = parseLimit({ quota: 10, window: '1s', algorithm: 'fixed-window' })
    // [at ms, cost, retry, remaining, reset, why]
    const story: [number, number, number, number, number, string][] = [
      [0, 5, 0, 5, 1000, 'the first request begins the window'],
      [999, 6, 1, 5, 1, 'a refusal spends nothing'],
      [999, 11, -1, 5, 1, 'more than the quota never fits'],
      [1000, 6, 0, 4, 1000, 'at its end a new window begins'],
      [500, 0, 0, 4, 1000, 'a clock that was set back moves the window to now'],
    ]
    let row: number[] = []
    for (const [ms, cost, ...expected] of story) {
      const [retry, remaining, reset, , ...next] = measured(limit, START + ms, cost, row)
      row = next
      expect([retry, remaining, reset, expected[3]]).toEqual(expected)
    }
  })

  test.each(ROWS)('answers as memory does, whatever came before (%s)', async algorithm => {
    const random = randomFrom(`lua ${algorithm}`)
    for (let i = 0; i < ofCases(100); i++) {
      const limit = limitOf(algorithm, random)
      const clock = new ManualClock(START)
      const store = new MemoryStore({ clock })
      let row: number[] = []
      for (let step = 0; step < 40; step++) {
        clock.advance(random.pick([0, 0, 1, Math.floor(limit.windowMs / 3), limit.windowMs, 2 * limit.windowMs]))
        const cost = random.pick([0, 1, 1, 2, 5, 40])
        const [verdict] = await store.consume([{ key: 'k', limit }], cost)
        const [retry, remaining, reset, delay, ...next] = measured(limit, clock.now(), cost, row)
        row = next
        const { retryAfterMs, ...others } = verdict
        expect([retry, remaining, reset, delay]).toEqual([
          retryAfterMs === Number.POSITIVE_INFINITY ? -1 : retryAfterMs,
          ...[others.remaining, others.resetAfterMs, others.delayMs],
        ])
      }
      store.close()
    }
  })
})

test('a script runs as it is written, over a Redis of a few lines', () => {
  const rows = new Map<string, string>()
  const commands: Record<string, (...words: string[]) => Reply> = {
    TIME: () => ['1700000000', '123456'],
    EXISTS: () => 0,
    GET: key => rows.get(key) ?? null,
    PTTL: () => 60_000,
    SET: (key, row) => {
      rows.set(key, row)
      return null
    },
  }
  const source = `ALGORITHM = 'fixed_window'\n${readFileSync(join(root, 'lua/limiter/consume_row.lua'), 'utf8')}`
  const ask = () =>
    lua.run('consume_row', source, ['blocks', 'waiting', 'a', 'b', 'a'], ['1700000001000', '2', '60000', ''], words =>
      commands[words[0]](...words.slice(1)),
    )
  const now = 1_700_000_000_123
  expect(ask()).toEqual([now, 1, 60_000, 1, 60_000, 0, 60_000])
  expect(ask()).toEqual([now, -1, 60_000, 60_000, 0, 60_000, -1, 60_000, 60_000])
})
