// Runs on every runtime: every case, one line of JSON for each. Ends by itself: nothing of spillway keeps a process alive.
import type { Outcome } from './case.js'
import { entries } from './cases/entries.js'
import { exact } from './cases/exact.js'
import { expressCases } from './cases/express.js'
import { fetchCases } from './cases/fetch.js'
import { processLoads } from './cases/process-load.js'
import { sharedObjects } from './cases/shared-objects.js'

async function main(): Promise<void> {
  for (const { name, run } of [
    ...entries,
    ...exact,
    ...expressCases,
    ...fetchCases,
    ...sharedObjects,
    ...processLoads,
  ]) {
    const startedAt = performance.now()
    const outcome = await run().then(
      told => ({ told }),
      error => ({ error: String(error?.stack ?? error) }),
    )
    const line: Outcome = { name, ms: Math.round(performance.now() - startedAt), ...outcome }
    console.log(JSON.stringify(line))
  }
}

main()
