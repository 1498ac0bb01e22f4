// How often sliding-counter decides otherwise than the exact sliding-window: on Poisson traces, and on access logs by
// address. Deterministic: the same figures on every machine.
//
//   node --import tsx bench/sliding-counter-accuracy.ts [access.log …]
import { basename } from 'node:path'
import { logTrace } from './accuracy/log-trace.js'
import { logTable, poissonComparisons, poissonTable } from './accuracy/tables.js'

console.log(poissonTable(poissonComparisons()))
for (const file of process.argv.slice(2)) {
  const trace = logTrace(file)
  const keys = new Set(trace.map(({ key }) => key)).size
  console.log(`\n${logTable(`${basename(file)}: ${trace.length} requests of ${keys} addresses`, trace)}`)
}
