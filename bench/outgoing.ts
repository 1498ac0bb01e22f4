// What a call costs the process that waits for a partner's limit, by how many calls wait.
import { type Contender, contest, type Effort, withProcess } from './contest/contest.js'
import { figure, ratio, rowsOf } from './contest/figures.js'
import { type Claim, progress, type Report, runAlone } from './contest/report.js'

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
        rows: rowsOf(turns, ({ name, of, against }) => [name, of(joinedUs), against(FEW, joinedUs), of(leftUs)]),
      },
    ],
    claims,
  }
}

await runAlone(import.meta, outgoing)
