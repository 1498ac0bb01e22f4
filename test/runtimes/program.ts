// Runs on every runtime: every case, one line of JSON for each. Ends by itself: nothing of spillway keeps a process
// alive.
import { LAST, type Outcome } from './case.js'
import { bunOutage } from './cases/bun-outage.js'
import { dashboardCases } from './cases/dashboard.js'
import { entries } from './cases/entries.js'
import { exact } from './cases/exact.js'
import { expressCases } from './cases/express.js'
import { fetchCases } from './cases/fetch.js'
import { h3Cases } from './cases/h3.js'
import { live } from './cases/live.js'
import { processLoads } from './cases/process-load.js'
import { sharedObjects } from './cases/shared-objects.js'
import { sqlite } from './cases/sqlite.js'

const CASES = [
  ...entries,
  ...exact,
  ...sqlite,
  ...expressCases,
  ...fetchCases,
  ...h3Cases,
  ...dashboardCases,
  ...sharedObjects,
  ...live,
  ...bunOutage,
  ...processLoads,
]

async function main(): Promise<void> {
  for (const { name, run } of CASES) {
    const startedAt = performance.now()
    const outcome = await run().then(
      told => ({ told }),
      error => ({ error: String(error?.stack ?? error) }),
    )
    print({ name, ms: performance.now() - startedAt, ...outcome })
  }
  print({ name: LAST, ms: performance.now(), told: `by itself, after ${CASES.length} cases` })
}

function print(outcome: Outcome): void {
  console.log(JSON.stringify({ ...outcome, ms: Math.round(outcome.ms) }))
}

main()
