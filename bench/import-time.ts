// How long a process takes to load spillway/express, against express-rate-limit, by `import` and by `require`.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Effort } from './contest/contest.js'
import { figure, median, spread } from './contest/figures.js'
import { type Claim, progress, type Report, runAlone } from './contest/report.js'

/** How many ms later than its peer a service may start, because it uses this package. */
const TARGET_MS = 15
const ROUNDS = 15
const OURS = 'spillway/express'
const PEER = 'express-rate-limit'

const WAYS = {
  import: { type: 'module', load: (name: string) => `await import('${name}')` },
  require: { type: 'commonjs', load: (name: string) => `require('${name}')` },
} as const
type Way = keyof typeof WAYS

/**
 * Processor time in ms of loading in a new process, without the start of Node itself: company on the machine changes it
 * least.
 */
function loadMs(way: Way, name: string): number {
  const { type, load } = WAYS[way]
  const source = `const before = process.cpuUsage(); ${load(name)}; const { user, system } = process.cpuUsage(before); console.log((user + system) / 1000)`
  // Both are found from here: the one as the package itself, the other as its devDependency.
  const cwd = fileURLToPath(new URL('..', import.meta.url))
  const { stdout, stderr, status } = spawnSync(process.execPath, [`--input-type=${type}`, '-e', source], {
    cwd,
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`${way} of ${name}: ${stderr}`)
  return Number(stdout)
}

export async function importTime(effort: Effort): Promise<Report> {
  const ways = Object.keys(WAYS) as Way[]
  const times = new Map(ways.map(way => [way, { ours: [] as number[], peer: [] as number[] }]))
  // The first round fills the file cache of the system, and does not count.
  for (let round = -1; round < Math.ceil(ROUNDS * effort.stretch); round++) {
    progress(`import time: round ${round + 1}`)
    for (const [way, { ours, peer }] of times) {
      const pair = [loadMs(way, OURS), loadMs(way, PEER)]
      if (round < 0) continue
      ours.push(pair[0])
      peer.push(pair[1])
    }
  }
  const claims = [...times].map(
    ([way, { ours, peer }]): Claim => ({
      text: `${way} of ${OURS}, less that of ${PEER}`,
      bound: 'at most',
      target: TARGET_MS,
      measured: median(ours.map((ms, i) => ms - peer[i])),
      unit: 'ms',
    }),
  )
  return {
    title: 'Import time',
    method: `Processor time, each time in a new process, in turns; the median of ${ROUNDS}. The start of Node is not counted. The difference is between neighbours.`,
    tables: [
      {
        caption: 'Processor ms to load',
        head: ['by', OURS, PEER, 'difference'],
        rows: [...times].map(([way, { ours, peer }]) => [
          way,
          figure(median(ours).value),
          figure(median(peer).value),
          spread(median(ours.map((ms, i) => ms - peer[i]))),
        ]),
      },
    ],
    claims,
  }
}

await runAlone(import.meta, importTime)
