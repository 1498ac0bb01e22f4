#!/usr/bin/env node
// Prints the sum of the tally reporter's results in the given file, as one line for readers of CI.
import { readFileSync } from 'node:fs'

const sum = { passed: 0, failed: 0, skipped: 0 }
for (const line of readFileSync(process.argv[2], 'utf8').split('\n').filter(Boolean)) {
  const tally = JSON.parse(line)
  sum.passed += tally.passed
  sum.failed += tally.failed
  sum.skipped += tally.skipped
}
console.log(`${sum.passed} passed, ${sum.failed} failed${sum.skipped > 0 ? `, ${sum.skipped} skipped` : ''}`)
