// Started by lateness.ts with process ids: watches how late this machine makes them, and itself. Nothing of ours runs
// here, so our code can make it late only by taking every processor.
import { readFileSync } from 'node:fs'

const EVERY_MS = 2

const pids = process.argv.slice(2)

/**
 * For how long the main thread of each process has waited for a processor so far, ms: it could run, and others did.
 * What it computed is not in it. Undefined for a process that has ended, and where the system does not tell.
 */
const waitedMs = () =>
  pids.map(pid => {
    try {
      return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[1]) / 1e6
    } catch {
      return undefined
    }
  })

const before = waitedMs()
let lastAt = performance.now()
let wokenLateMs = 0
const beat = () => {
  const now = performance.now()
  wokenLateMs = Math.max(wokenLateMs, now - lastAt - EVERY_MS)
  lastAt = now
}
setInterval(beat, EVERY_MS)

process.on('message', () => {
  beat()
  const after = waitedMs()
  const grown = after.map((ms, i) => (ms === undefined || before[i] === undefined ? 0 : ms - before[i]))
  process.send?.({ wokenLateMs, waitedMs: grown })
})
process.once('disconnect', () => process.exit(0))
process.send?.('ready')
