import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { poissonComparisons, poissonTable, wrongOnPoisson } from '../../bench/accuracy/tables.js'
import { mostInAllTraffic } from '../../bench/algorithms/all-traffic.js'
import { mostAllowed } from '../../bench/algorithms/most-allowed.js'
import { mostAllowedTable } from '../../bench/algorithms/most-allowed-table.js'
import { STATES } from '../../bench/algorithms/state.js'
import { tableText } from '../../bench/contest/figures.js'
import { drawings } from '../../scripts/drawing/drawings.js'
import { parsePolicy } from '../../src/limiter/core/limit.js'
import { PAGES, textOf } from '../docs/pages.js'
import { root } from '../support/files.js'

const folder = join(__dirname, '../../docs')
const lines = textOf('docs/algorithms.md').split('\n')

describe('the pictures', () => {
  const drawn = [...drawings()]

  test.each(drawn)('%s shows what the code does: else run `npm run draw`', (name, svg) => {
    expect(readFileSync(join(folder, name), 'utf8')).toBe(svg)
  })

  test('are each on a page, and the pages show no others', () => {
    // Pictures of measurements (docs/observing/) are drawn only after a new measurement.
    const shown = PAGES.flatMap(page =>
      [...textOf(page).matchAll(/^!\[.+\]\((?!observing\/)(?:.+\/)?(.+\.svg)\)$/gm)].map(([, name]) => name),
    )
    // One lease is a drawing by hand.
    expect(new Set(shown)).toEqual(new Set([...drawn.map(([name]) => name), 'leases.svg']))
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

  test('the overview is the one that was measured last', () => {
    const overview = rowsOf(readFileSync(join(root, 'bench/RESULTS.md'), 'utf8')).filter(
      row => cellsOf(row).length === 9,
    )
    const measured = overview.filter(row => STATES.some(({ name }) => cellsOf(row)[1] === name))
    expect(measured).toHaveLength(STATES.length)
    expect(lines).toEqual(expect.arrayContaining(measured))
  })

  test('the most that gets through', () => {
    expect(lines).toEqual(expect.arrayContaining(rowsOf(tableText(most))))
  })

  test.each(STATES)('both in the overview table, $name', ({ name, limit }) => {
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
  ])('under %s no traffic gets more units than the attacks', policy => {
    const [limit] = parsePolicy(policy)
    expect(mostAllowed(limit, limit.windowMs)).toEqual([mostInAllTraffic(limit)])
  })
})
