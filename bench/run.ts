// Everything, or what is named: prints each result as it comes. Everything writes RESULTS.md.
//
//   npm run bench                  about an hour, on a machine that does nothing else
//   npm run bench -- redis memory  these alone; RESULTS.md stays as it is
//   npm run bench -- --quick       about ten minutes, to see that all runs; its numbers mean little, and RESULTS.md
//                                  stays as it is
//   npm run bench -- --continue    everything, without what an earlier run of the same commit has already measured
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { adaptive } from './adaptive.js'
import { chosenEffort } from './contest/contest.js'
import { tableText } from './contest/figures.js'
import {
  chosenNames,
  claimTable,
  type Measure,
  machine,
  prepare,
  printed,
  progress,
  type Report,
  reportText,
} from './contest/report.js'
import { dashboard } from './dashboard.js'
import { dashboardPages } from './dashboard-pages.js'
import { dropIn } from './drop-in.js'
import { dropInPeers } from './drop-in-peers.js'
import { http } from './http.js'
import { importTime } from './import-time.js'
import { justStarted } from './just-started.js'
import { leases } from './leases.js'
import { memory } from './memory.js'
import { memoryAKey } from './memory-a-key.js'
import { observing } from './observing.js'
import { outgoing } from './outgoing.js'
import { pipelined } from './pipelined.js'
import { redis } from './redis.js'
import { refusals } from './refusals.js'
import { semaphore } from './semaphore.js'
import { sizes } from './sizes.js'
import { sql } from './sql.js'

/** By the name of their file, as they are asked for. */
const MEASURES: Readonly<Record<string, Measure>> = {
  memory,
  redis,
  sql,
  refusals,
  http,
  'drop-in': dropIn,
  'drop-in-peers': dropInPeers,
  pipelined,
  leases,
  semaphore,
  'memory-a-key': memoryAKey,
  'import-time': importTime,
  'just-started': justStarted,
  sizes,
  observing,
  dashboard,
  'dashboard-pages': dashboardPages,
  outgoing,
  adaptive,
}
/** Files without claims of this kind, whose tables are taken as they print them. */
const OTHERS: Readonly<Record<string, string>> = {
  algorithms: 'Algorithms',
  'sliding-counter-accuracy': 'sliding-counter against sliding-window',
  acquire: 'Waiting, and policies of several limits',
  'shared-rate': 'Shared rate limiter',
  'delay-queue': 'Delay queue',
  bottleneck: 'Bottleneck',
}

/** What was measured; scripts/gate.mjs reads it there. */
function commit(): string {
  const git = (...args: string[]) => execFileSync('git', args, { encoding: 'utf8' }).trim()
  const changed = git('status', '--porcelain', '--', 'src', 'lua') === '' ? '' : ' with changes that are not committed'
  return `${git('rev-parse', '--short=8', 'HEAD')}${changed}`
}

/**
 * What an earlier run of this commit has found under this name, if --continue asks for it; else what `measure` finds
 * now, kept for such a run. An hour of measuring is not lost because the last minute of it failed.
 */
async function kept<T>(name: string, measure: () => Promise<T> | T): Promise<T> {
  if (chosen !== undefined || effort.name !== 'full') return measure()
  const file = new URL(`.kept/${measured.replaceAll(' ', '-')}/${name}.json`, import.meta.url)
  if (process.argv.includes('--continue') && existsSync(file)) return JSON.parse(readFileSync(file, 'utf8'))
  const found = await measure()
  mkdirSync(new URL('.', file), { recursive: true })
  writeFileSync(file, JSON.stringify(found))
  return found
}

const startedAt = performance.now()
const all = [...Object.keys(MEASURES), ...Object.keys(OTHERS)]
const chosen = chosenNames(all)
prepare()
// Of this the build is, whatever is committed meanwhile.
const measured = commit()
const effort = chosenEffort()
const reports: Report[] = []
const sections: string[] = []
const add = (section: string) => {
  sections.push(section)
  console.log(`\n${section}\n`)
}

for (const [name, measure] of Object.entries(MEASURES)) {
  if (chosen !== undefined && !chosen.includes(name)) continue
  const report = await kept(name, () => measure(effort))
  reports.push(report)
  // The claims stand at the top of RESULTS.md, all together; below each subject they would only be repeated.
  add(reportText({ ...report, claims: [] }))
}
for (const [name, title] of Object.entries(OTHERS)) {
  if (chosen === undefined ? effort.name === 'quick' : !chosen.includes(name)) continue
  progress(name)
  const tables = await kept(name, () => printed(`${name}.ts`))
  add(`## ${title}\n\n${tables}`)
}

const claims = reports.flatMap(report => report.claims)
const summary = tableText(claimTable(claims, '## Claims'))
if (claims.length > 0) console.log(`\n${summary}\n`)
const isWritten = chosen === undefined && effort.name === 'full'
if (isWritten) {
  const head = `# Results

Written by \`npm run bench\` on ${new Date().toISOString().slice(0, 10)}, of commit ${measured}: ${machine()}.

Every contender runs in Node processes of its own, which take turns (A B C, C B A, …); a ratio compares turns that stood next to each
other, and the median is given, with the quartiles behind it. Before anything is measured each contender proves that it limits. What is
measured of us is \`dist/\`, as it is installed.`
  writeFileSync(new URL('RESULTS.md', import.meta.url), `${[head, summary, ...sections].join('\n\n')}\n`)
}
const minutes = ((performance.now() - startedAt) / 60_000).toFixed(1)
progress(`${minutes} minutes${isWritten ? '; written to bench/RESULTS.md' : ''}`)
