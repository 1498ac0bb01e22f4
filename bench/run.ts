// Everything: prints each result as it comes and writes RESULTS.md.
//
//   npm run bench            about ten minutes, on a machine that does nothing else
//   npm run bench -- --quick one minute or two, to see that all runs; its numbers mean little
import { writeFileSync } from 'node:fs'
import { chosenEffort } from './contest/effort.js'
import { machine } from './contest/machine.js'
import { prepare } from './contest/prepare.js'
import { progress } from './contest/progress.js'
import { claimTable, type Measure, type Report, reportText } from './contest/report.js'
import { tableText } from './contest/table.js'

prepare()
const effort = chosenEffort()
const startedAt = performance.now()

// Imported now, because before the build there is nothing to import.
const measures: Measure[] = [
  (await import('./memory.js')).memory,
  (await import('./redis.js')).redis,
  (await import('./refusals.js')).refusals,
  (await import('./http.js')).http,
  (await import('./pipelined.js')).pipelined,
  (await import('./memory-a-key.js')).memoryAKey,
]

const reports: Report[] = []
for (const measure of measures) {
  const report = await measure(effort)
  console.log(`\n${reportText(report)}\n`)
  reports.push(report)
}

const head = `# Results

Written by \`npm run bench${effort.name === 'quick' ? ' -- --quick' : ''}\` on ${new Date().toISOString().slice(0, 10)}: ${machine()}.

Every contender runs in Node processes of its own, which take turns (A B C, C B A, …); a ratio compares turns that stood next to each
other, and the median is given, with the quartiles behind it. Before anything is measured each contender proves that it limits. A peer's
figure is its own choice of features too: only those that count like ours do what ours does.${
  effort.name === 'quick' ? '\n\nA quick run: these numbers only show that everything runs.' : ''
}`
const summary = tableText(
  claimTable(
    reports.flatMap(report => report.claims),
    '## Claims',
  ),
)
// The claims stand at the top, all together; below each subject they would only be repeated.
const body = reports.map(report => reportText({ ...report, claims: [] }))
writeFileSync(new URL('RESULTS.md', import.meta.url), `${[head, summary, ...body].join('\n\n')}\n`)
console.log(`\n${summary}\n`)
progress(`${((performance.now() - startedAt) / 60_000).toFixed(1)} minutes; written to bench/RESULTS.md`)
