// What a call costs the process that waits for a partner's limit, by how many calls wait.
import type { Claim } from './contest/claim.js'
import { type Contender, withProcess } from './contest/contender.js'
import { contest } from './contest/contest.js'
import type { Effort } from './contest/effort.js'
import { figure, spread } from './contest/figure.js'
import { medianOf, ratio } from './contest/median.js'
import { progress } from './contest/progress.js'
import { type Report, runAlone } from './contest/report.js'

interface Turn {
  readonly calls: number
  /** CPU time, µs. */
  readonly joined: number
  readonly left: number
}

const COUNTS = [100, 1000, 10_000]
const nameOf = (waiting: number) => `${figure(waiting)} waiting`
const [FEW, , MANY] = COUNTS.map(nameOf)

const joinedUs = ({ calls, joined }: Turn) => joined / calls
const leftUs = ({ calls, left }: Turn) => left / calls

export async function outgoing(effort: Effort): Promise<Report> {
  const contenders = COUNTS.map(
    (waiting): Contender => ({ name: nameOf(waiting), file: 'outgoing.mjs', setup: { waiting } }),
  )
  progress('outgoing')
  for (const contender of contenders) {
    const outcome = await withProcess(contender, child => child.ask<string>('check'))
    if (outcome !== 'waited') throw new Error(`${contender.name}: a call was ${outcome} although the rate was used up`)
  }
  const turns = await contest<Turn>(contenders, effort, {
    warmUp: child => child.ask('run', { calls: 10_000 }),
    turn: child => child.ask('run', { calls: 20_000 }),
  })
  const claims: Claim[] = [
    {
      text: `CPU time of a call that begins to wait: ${MANY} ÷ ${FEW}`,
      bound: 'at most',
      target: 2,
      measured: ratio(turns, MANY, FEW, joinedUs),
    },
  ]
  return {
    title: 'Outgoing calls that wait',
    method:
      'CPU time of `politeFetch` in one process for a call to a partner whose rate is used up: until it waits, and when its signal ends it. The rate is as large as the ' +
      'number of calls that wait.',
    tables: [
      {
        caption: 'A call that waits',
        head: ['calls', 'µs until it waits', `÷ ${FEW}`, 'µs when it is aborted'],
        rows: COUNTS.map(nameOf).map(name => [
          name,
          figure(medianOf(turns, name, joinedUs).value),
          name === FEW ? '1' : spread(ratio(turns, name, FEW, joinedUs)),
          figure(medianOf(turns, name, leftUs).value),
        ]),
      },
    ],
    claims,
  }
}

await runAlone(import.meta, outgoing)
