import assert from 'node:assert/strict'
import { getHeapStatistics } from 'node:v8'
import { type ProcessLoadOptions, processLoad } from 'spillway/adaptive'
import { eventually } from '../../support/eventually.js'
import { type Case, sleep } from '../case.js'

export const processLoads: Case[] = [{ name: 'processLoad', run: measured }]

const EASY: ProcessLoadOptions = { eventLoopDelayP99: '1h', utilization: 1, cpu: 1, heap: 1, every: 100 }
/** With one of them, one measurement alone makes the level high. */
const STRICT: Record<string, ProcessLoadOptions> = {
  delay: { eventLoopDelayP99: 20 },
  utilisation: { utilization: 0.02 },
  processor: { cpu: 0.01 },
  heap: { heap: 1e-6 },
}

/** A busy process is found to be so by what the runtime tells; gives what that is. */
async function measured(): Promise<string> {
  const loads = Object.entries(STRICT).map(([name, strict]) => ({ name, load: processLoad({ ...EASY, ...strict }) }))
  const whole = processLoad({ every: 100 })
  await sleep(250)
  await eventually('the process is idle', () => whole.level < 0.7)
  const { heap_size_limit: limit } = getHeapStatistics()
  const grown = Array.from({ length: 500_000 }, (_, i) => ({ i }))
  for (let i = 0; i < 5; i++) {
    const end = performance.now() + 250
    while (performance.now() < end) {}
    await sleep(1)
  }
  assert.ok(whole.level > 1 && whole.reason === 'event-loop', `busy, and the level is ${whole.level}: ${whole.reason}`)
  // What grows with the heap is no limit of it.
  const isLimit = getHeapStatistics().heap_size_limit === limit && grown.length > 0
  const told = loads.filter(({ name, load }) => load.level > 2 && (name !== 'heap' || isLimit)).map(({ name }) => name)
  for (const { load } of [...loads, { load: whole }]) load.close()
  return told.join(', ')
}
