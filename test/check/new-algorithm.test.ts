import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { RepositoryCopy } from './recipes/repository-copy.js'

/** Windows that begin at multiples of their length, by the clock: the example algorithm that the test adds. */
const TYPESCRIPT = `
import type { Verdict } from '../core/decision.js'
import type { Limit } from '../core/limit.js'
import { rowAlgorithm } from './algorithm.js'
import { floorDiv } from './algorithm.js'

export const clockWindow = rowAlgorithm<{ startedAt: number; spent: number }>(
  {
    width: 2,
    read: (cells, at) => ({ startedAt: cells[at], spent: cells[at + 1] }),
    write(cells, at, { startedAt, spent }) {
      cells[at] = startedAt
      cells[at + 1] = spent
    },
  },
  {
    keySuffix: 'cw',
    redisWork: 1,
    shapes: false,
    notesResets: false,
    needsRetries: false,
    fresh: () => ({ startedAt: Number.NEGATIVE_INFINITY, spent: 0 }),
    copy: ({ startedAt, spent }) => ({ startedAt, spent }),
    consume(limit, window, nowMs, cost) {
      const startedAt = nowMs - (nowMs % limit.windowMs)
      const leftMs = startedAt - nowMs + limit.windowMs
      const spent = window.startedAt >= startedAt ? window.spent : 0
      if (window.startedAt > startedAt) window.startedAt = startedAt
      if (cost === 0) return verdict(limit, spent, leftMs, 0)
      if (cost > limit.quota) return verdict(limit, spent, leftMs, Number.POSITIVE_INFINITY)
      if (spent + cost > limit.quota) return verdict(limit, spent, leftMs, leftMs)
      window.startedAt = startedAt
      window.spent = spent + cost
      return verdict(limit, spent + cost, leftMs, 0)
    },
    spend(limit, window, nowMs, cost) {
      const startedAt = nowMs - (nowMs % limit.windowMs)
      window.spent = (window.startedAt >= startedAt ? window.spent : 0) + cost
      window.startedAt = startedAt
    },
    refund(limit, window, nowMs, cost) {
      const startedAt = nowMs - (nowMs % limit.windowMs)
      if (window.startedAt < startedAt) return
      window.startedAt = startedAt
      window.spent = Math.max(0, window.spent - cost)
    },
    giveBack() {},
    fitsAfterMs(limit, window, nowMs, ahead, cost) {
      const { remaining } = this.consume(limit, window, nowMs, 0)
      if (cost > limit.quota) return Number.POSITIVE_INFINITY
      const over = ahead + cost - remaining
      const leftMs = limit.windowMs - (nowMs % limit.windowMs)
      return over <= 0 ? 0 : leftMs + floorDiv(over - 1, limit.quota) * limit.windowMs
    },
    stateFrom: ({ limit, remaining }, _, nowMs) => ({
      startedAt: nowMs - (nowMs % limit.windowMs),
      spent: limit.quota - remaining,
    }),
  },
)

function verdict(limit: Limit, spent: number, leftMs: number, retryAfterMs: number): Verdict {
  return {
    limit,
    allowed: retryAfterMs === 0,
    remaining: Math.max(0, limit.quota - spent),
    retryAfterMs,
    resetAfterMs: spent > 0 ? leftMs : 0,
    delayMs: 0,
  }
}
`

const LUA = `
--[[ clock-window: at = start of the window, a multiple of its length; x = units spent since. ]]

function measure()
  local start = now - math.fmod(now, window)
  local left = start - now + window
  local spent = at and at >= start and x or 0
  next_at, next_x, next_y = at, x, 0
  retry, delay = 0, 0
  if at and at > start then next_at = start end
  if cost > quota then
    retry = -1
  elseif cost > 0 and spent + cost > quota then
    retry = left
  elseif cost > 0 then
    spent = spent + cost
    next_at, next_x = start, spent
  end
  remaining = math.max(0, quota - spent)
  reset = spent > 0 and left or 0
end

function functions()
  -- @inline rows.measure_function
  local function window_of(limit, now, at, x)
    local start = now - math.fmod(now, limit.window)
    return start, at and at >= start and x or 0
  end
  functions = {
    measure = measure,
    charge = function(limit, now, cost, at, x)
      local start, spent = window_of(limit, now, at, x)
      return start, spent + cost, 0
    end,
    refund = function(limit, now, cost, at, x)
      local start, spent = window_of(limit, now, at, x)
      if spent > 0 then return start, math.max(0, spent - cost), 0 end
    end,
    settle = function() end,
    ahead = function(limit, now, ahead, cost, at, x)
      if cost > limit.quota then return -1 end
      local start, spent = window_of(limit, now, at, x)
      local over = ahead + cost - math.max(0, limit.quota - spent)
      if over <= 0 then return 0 end
      return start - now + limit.window + floor_div(over - 1, limit.quota) * limit.window
    end,
  }
end
`

const STORY = `
  [
    '5/10s clock-window',
    [
      [4000, 3, true, 2, 0, 6000, 'a window ends at a multiple of its length'],
      [9999, 3, false, 2, 1, 1, 'what does not fit waits for the end'],
      [10_000, 5, true, 0, 0, 10_000, 'the next window has all of its quota'],
      [10_000, 6, false, 0, NEVER, 10_000, 'more than the quota never fits'],
      [25_000, 0, true, 5, 0, 0, 'after the window the key is as if never used'],
    ],
  ],
]
`

/** The edits of docs/architecture.md, "Add an algorithm": to add a line or to add a file. */
const LINES: ReadonlyArray<readonly [file: string, after: RegExp, line: string]> = [
  ['src/core/limit.ts', /(?<=export type AlgorithmName = )/, "'clock-window' | "],
  [
    'src/core/limit.ts',
    /(?<=const ALGORITHMS[^{]+\{\n)/,
    "  'clock-window': { hasBurst: false, multiplies: false, keepsShare: false },\n",
  ],
  ['src/algorithms/registry.ts', /(?<=const ALGORITHMS[^{]+\{\n)/, "  'clock-window': clockWindow,\n"],
  ['src/algorithms/registry.ts', /^/, "import { clockWindow } from './clock-window.js'\n"],
  ['test/support/stories.ts', /\n\]\n$/, STORY],
]
const FILES = { 'src/algorithms/clock-window.ts': TYPESCRIPT, 'lua/algorithms/clock_window.lua': LUA }

const SUITES = ['memory/contract/any-algorithm', 'redis/contract/any-algorithm', 'test/algorithms/promises']

describe('an algorithm that is added as docs/architecture.md says', () => {
  let copy: RepositoryCopy
  beforeAll(() => {
    copy = new RepositoryCopy()
    for (const [file, after, line] of LINES) copy.insert(file, after, line)
    for (const [file, text] of Object.entries(FILES)) copy.write(file, text)
    expect(copy.run('--import', 'tsx', 'scripts/embed-lua.ts').stderr).toBe('')
  }, 60_000)
  afterAll(() => copy.remove())

  test('compiles with changes in the files of the recipe only', () => {
    const rooms = ['src', 'test/support', 'test/stores', 'test/algorithms', 'test/limiter', 'test/core']
    expect(copy.compilerErrors(rooms)).toBe('')
  }, 120_000)

  test('passes the contract on both stores, alone and together with the others', () => {
    const passed = copy.passedTests(SUITES, 'clock-window')
    expect(passed).toHaveLength(SUITES.length)
    expect(Math.min(...passed)).toBeGreaterThan(0)
  }, 180_000)
})
