import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { panelFile } from '../../scripts/panel-chart.js'
import { parseRule } from '../../src/operating/observing/alerts/alert-rule.js'
import { CONDITIONS } from '../../src/operating/observing/alerts/conditions.js'
import { METRICS, type Metric } from '../../src/operating/observing/metrics.js'
import { METHODS } from '../operating/observing/recorder.js'
import { root } from '../support/files.js'
import { panelsOf } from '../support/grafana-dashboard.js'
import { textOf } from './pages.js'

const page = textOf('docs/observing.md')

/** The first cells of the rows of a table that begins with this head. */
function firstCells(head: string): string[] {
  const [, body = ''] = new RegExp(`^\\| ${head} \\|.*\\n\\| ---.*\\n((?:\\|.*\\n)+)`, 'm').exec(page) ?? []
  return body
    .trim()
    .split('\n')
    .map(row => /`([\w-]+)/.exec(row)?.[1] ?? row)
}

test('the page has every event', () => {
  expect(firstCells('event')).toEqual(METHODS)
})

test('the page has every metric, as the code has it', () => {
  const rows = (Object.values(METRICS) as readonly Metric[]).map(({ kind, name, instrument, unit, labels, help }) => {
    const given = labels.map(label => `\`${label}\``).join(', ') || 'none'
    return `| \`ratelimit_${name}\` | \`${instrument}\` | ${kind}${unit === 's' ? ', s' : ''} | ${given} | ${help} |`
  })
  expect(page).toContain(`${rows.join('\n')}\n\n`)
  expect(firstCells('Prometheus')).toHaveLength(rows.length)
})

test('the page has every condition of an alert, and its rules are accepted', () => {
  expect(firstCells('`when`')).toEqual(Object.keys(CONDITIONS))
  const rules = [...page.matchAll(/^\| [^`|]+ \| `(\{ name:.*\})` \|$/gm)].map(([, text]) => text)
  expect(rules).toHaveLength(8)
  for (const text of rules) expect(parseRule(new Function(`return ${text}`)()).rule.name).toBeTruthy()
})

test('another page shows every panel of the dashboard: its query, and a picture of the answer', () => {
  const page = textOf('docs/grafana.md')
  const panels = panelsOf(join(root, 'ops/dashboard.json'))
  for (const { title, description, queries } of panels) {
    const asked = queries.map(({ expression }) => expression).join('\n')
    const picture = `observing/${panelFile(title)}`
    expect(page).toContain(`## ${title}\n\n${description}\n\n\`\`\`promql\n${asked}\n\`\`\`\n\n![${title}](${picture})`)
  }
  const drawn = readdirSync(join(root, 'docs/observing'))
  expect(new Set(drawn)).toEqual(new Set(panels.map(({ title }) => panelFile(title))))
})
