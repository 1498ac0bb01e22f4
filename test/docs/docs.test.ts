import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import * as timers from 'node:timers/promises'
import { format } from 'node:util'
import { describe, expect, test } from '@jest/globals'
import ts from 'typescript'
import { poissonComparisons, poissonTable, wrongOnPoisson } from '../../bench/accuracy/tables.js'
import { mostInAllTraffic } from '../../bench/algorithms/all-traffic.js'
import { mostAllowed } from '../../bench/algorithms/most-allowed.js'
import { mostAllowedTable } from '../../bench/algorithms/most-allowed-table.js'
import { STATES } from '../../bench/algorithms/state.js'
import { tableText } from '../../bench/contest/table.js'
import { drawings } from '../../scripts/drawing/drawings.js'
import { parsePolicy } from '../../src/core/limit.js'
import * as spillway from '../../src/index.js'
import * as testing from '../../src/testing.js'

const folder = join(__dirname, '../../docs')
const page = readFileSync(join(folder, 'algorithms.md'), 'utf8')
const lines = page.split('\n')

describe('the pictures', () => {
  const drawn = [...drawings()]

  test.each(drawn)('%s shows what the code does: else run scripts/draw-algorithms.ts', (name, svg) => {
    expect(readFileSync(join(folder, name), 'utf8')).toBe(svg)
  })

  test('are all on the page, and no others', () => {
    const shown = [...page.matchAll(/^!\[.+\]\((.+)\)$/gm)].map(([, name]) => name)
    expect(shown.sort()).toEqual(drawn.map(([name]) => name).sort())
    expect(new Set(readdirSync(folder).filter(name => name.endsWith('.svg')))).toEqual(new Set(shown))
  })
})

describe('the figures', () => {
  const comparisons = poissonComparisons()
  const most = mostAllowedTable()
  const rowsOf = (table: string) => table.split('\n').filter(line => line.startsWith('|'))
  const cellsOf = (row = '') => row.split('|').map(cell => cell.trim())

  test('how wrong sliding-counter is', () => {
    expect(lines).toEqual(expect.arrayContaining(rowsOf(poissonTable(comparisons))))
  })

  test('the most that gets through', () => {
    expect(lines).toEqual(expect.arrayContaining(rowsOf(tableText(most))))
  })

  test.each(STATES)('both in the table of all, $name', ({ name, limit }) => {
    const [, ...inSpans] = most.rows.find(([policy]) => policy === `100/1m ${limit.algorithm}`) ?? []
    const wrong = limit.algorithm === 'sliding-counter' ? wrongOnPoisson(comparisons) : 'none'
    const row = lines.map(cellsOf).find(cells => cells.length === 9 && cells[1] === name)
    expect(row?.slice(5, 8)).toEqual([...inSpans, wrong])
  })

  test.each([
    '2/4ms fixed-window',
    '2/4ms sliding-window',
    '2/4ms sliding-counter',
    '3/6ms token-bucket',
    '3/6ms token-bucket burst=2',
    '3/6ms leaky-bucket',
  ])('under %s no traffic gets more through than the attacks do', policy => {
    const [limit] = parsePolicy(policy)
    expect(mostAllowed(limit, limit.windowMs)).toEqual([mostInAllTraffic(limit)])
  })
})

describe('the samples', () => {
  const modules: Record<string, unknown> = { spillway, 'spillway/testing': testing, 'node:timers/promises': timers }
  const samples = [...page.matchAll(/^```ts\n(.*?)^```\n```text\n(.*?)^```$/gms)]

  test('each shows what it prints', () => {
    expect(samples).toHaveLength(page.match(/^```ts$/gm)?.length ?? 0)
  })

  test.each(samples.map(([, code, output]) => [code.match(/^const \w+ = .*/m)?.[0] ?? code, code, output]))(
    '%s',
    async (_, code, output) => {
      const printed: string[] = []
      const console = { log: (...values: unknown[]) => printed.push(`${format(...values)}\n`) }
      await run(code, name => modules[name], console)
      expect(printed.join('')).toBe(output)
    },
  )
})

/** Runs a module of TypeScript that may await at its top. */
async function run(code: string, require: (name: string) => unknown, console: object): Promise<void> {
  const compilerOptions = { module: ts.ModuleKind.CommonJS, target: ts.ScriptTarget.ES2022 }
  const { outputText } = ts.transpileModule(code, { compilerOptions })
  const AsyncFunction = run.constructor as FunctionConstructor
  await new AsyncFunction('require', 'exports', 'console', outputText)(require, {}, console)
}
