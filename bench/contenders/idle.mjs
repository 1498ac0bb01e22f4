// A process that does nothing, or nothing but measure its load. Tells what its processor did meanwhile.
import { setTimeout as sleep } from 'node:timers/promises'
import { processLoad } from '../../dist/adaptive.mjs'
import { answer, setup } from './answering.mjs'

if (setup.measures) processLoad()

answer({
  /** Share of a core, %. */
  async cpu(/** @type {{ ms: number }} */ { ms }) {
    const before = process.cpuUsage()
    await sleep(ms)
    const { user, system } = process.cpuUsage(before)
    return ((user + system) / 1000 / ms) * 100
  },
})
