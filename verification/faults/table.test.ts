import { readFileSync } from 'node:fs'
import { describe, expect, jest, test } from '@jest/globals'
import { askedInVain } from '../histories/bounds.js'
import { check, textOf } from '../histories/checker.js'
import type { Bounds, Decided, History, Subject } from '../histories/history.js'
import { playRound } from '../histories/round.js'
import type { Topology } from '../histories/servers.js'

jest.setTimeout(90_000)

const CLIENTS = ['ioredis', 'ioredis 5', 'node-redis']
/** Which docs/outages.md promises for what is not noticed, too. */
const A_SECOND_MS = 1000
/** A store that is not noticed to fail may not be taken for one because the machine is busy. */
const PATIENT_MS = 1000

/** The rows of the table of faults: [fault, what is admitted at most, when Redis decides again]. */
const PROMISED = new Map(
  readFileSync('docs/outages.md', 'utf8')
    .split(/^\| fault \| at most admitted .*\n.*\n/m)[1]
    .split('\n\n')[0]
    .split('\n')
    .map(row => row.split('|').map(cell => cell.trim()))
    .map(([, fault, admitted, again]) => [fault, boundsOf(admitted, again)]),
)

function boundsOf(admitted: string, again: string): Bounds {
  const [, lives = '1', alone] = /^(?:(\d) × )?quota( \+ processes × share)?/.exec(admitted) ?? []
  const [, seconds] = /within (\d+) s/.exec(again) ?? []
  const backMs = seconds === undefined ? A_SECOND_MS : Number(seconds) * 1000
  return { subject: 'load', lives: Number(lives), alone: alone !== undefined, backMs }
}

/** [fault, nemesis, servers, how often, what every process must have noticed]. '': anything. */
const NEMESES: ReadonlyArray<
  readonly [fault: string, nemesis: string, Topology, times: number, noticed: string | undefined]
> = [
  ['hangs (SIGSTOP), or packets vanish', 'a server stands still (SIGSTOP)', 'single', 1, 'did not answer'],
  ['hangs (SIGSTOP), or packets vanish', 'no packet arrives', 'single', 1, 'did not answer'],
  ['dies and comes back empty', 'a server dies and comes back empty', 'single', 1, ''],
  ['connections are killed', 'connections are killed', 'single', 5, undefined],
  ['SCRIPT FLUSH', 'scripts are forgotten (SCRIPT FLUSH)', 'single', 20, undefined],
  ['memory is full (OOM)', 'memory is full', 'single', 1, 'OOM'],
  ['becomes a replica (READONLY)', 'a server becomes a replica', 'single', 1, 'READONLY'],
  ['0 to 60 ms of latency', 'all answers are late (0 to 60 ms)', 'single', 1, 'did not answer'],
  ['sentinels promote a replica', 'a replica takes over a server that lives', 'sentinel', 1, undefined],
  ['sentinels promote a replica', 'a server dies, its replica takes over', 'sentinel', 1, ''],
  ['a slot of a cluster is moved', 'a slot moves', 'cluster', 10, undefined],
]

/** More keys of smaller quotas on a cluster, so that every slot is asked for all the time. */
function loadOf(topology: Topology, deadlineMs: number): Subject {
  const quota = topology === 'cluster' ? 3 : 30
  const limits = [{ algorithm: 'sliding-window', quota, windowMs: 3_600_000, burst: quota }] as const
  return { name: 'load', kind: 'limiter', limits, deadlineMs, localShare: 1 / 3 }
}

/** Otherwise a row shows nothing. */
function expectTested(history: History, noticed: string | undefined): void {
  const decisions = history.operations as readonly Decided[]
  const processes = new Set(decisions.map(({ process }) => process))
  expect(processes.size).toBe(CLIENTS.length)
  const granted = new Map<string, number>()
  for (const { key, allowed } of decisions) if (allowed) granted.set(key, (granted.get(key) ?? 0) + 1)
  const [{ quota }] = history.subjects[0].limits ?? []
  expect([...granted.values()].filter(units => units >= quota).length).toBeGreaterThan(10)
  if (noticed === undefined) return
  for (const process of processes) {
    expect(decisions.some(one => one.process === process && one.source === 'fallback')).toBe(true)
  }
  const said = history.notes?.filter(({ kind }) => kind === 'failed').map(({ said }) => said)
  expect(said).toContainEqual(expect.stringContaining(noticed))
}

describe('three processes with 200 decisions in flight each keep the promises of outages.md', () => {
  test('each of which has a nemesis', () => {
    expect([...new Set(NEMESES.map(([fault]) => fault))].sort()).toEqual([...PROMISED.keys()].sort())
  })

  test.each(NEMESES)('%s: %s', async (fault, nemesis, topology, times, noticed) => {
    const bounds = PROMISED.get(fault) as Bounds
    const { history, folder } = await playRound({
      topology,
      seed: nemesis,
      program: './verification/histories/load-program.ts',
      subjects: [loadOf(topology, bounds.alone ? 50 : PATIENT_MS)],
      processes: CLIENTS.length,
      clients: CLIENTS,
      lengthMs: 0,
      only: { nemesis, times, bounds },
    })
    if (process.env.SPILLWAY_FIGURES) process.stdout.write(`    ${history.operations.length} decisions\n`)
    expect(check(history).slice(0, 5).map(textOf)).toEqual([])
    expect(history.notes?.filter(({ kind }) => kind === 'unhandled')).toEqual([])
    expectTested(history, noticed)
    if (nemesis.includes('SIGSTOP')) expect(askedInVain(history).length).toBeGreaterThan(20)
    folder.remove()
  })
})
