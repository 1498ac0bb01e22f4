// A jest reporter for .ci/run, which sums up several runs of jest: adds one line of JSON to the file that
// SPILLWAY_TALLY names, and does nothing where there is none.
import { appendFileSync } from 'node:fs'

export default class TallyReporter {
  /**
   * @param {unknown} _contexts
   * @param {import('@jest/reporters').AggregatedResult} results
   */
  onRunComplete(_contexts, results) {
    const file = process.env.SPILLWAY_TALLY
    if (!file) return
    const { numPassedTests, numFailedTests, numRuntimeErrorTestSuites, numPendingTests, numTodoTests } = results
    const tally = {
      passed: numPassedTests,
      // A file that could not even be loaded has no tests to count; it has failed all the same.
      failed: numFailedTests + numRuntimeErrorTestSuites,
      skipped: numPendingTests + numTodoTests,
    }
    appendFileSync(file, `${JSON.stringify(tally)}\n`)
  }
}
