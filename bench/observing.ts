// What an observer costs a decision in memory: none, one that counts, OpenTelemetry, Prometheus, alerts.
import { type Contender, contest, type Effort, withProcess } from './contest/contest.js'
import { ratio, rowsOf } from './contest/figures.js'
import { type Claim, progress, type Report, runAlone } from './contest/report.js'

interface Turn {
  readonly decisions: number
  readonly told: number
  readonly cpuUs: number
}

const NONE = 'no observer'
const COUNTING = 'an observer that counts'
const OBSERVERS: ReadonlyArray<readonly [name: string, observer: string]> = [
  [NONE, 'none'],
  [COUNTING, 'counting'],
  ['spillway/prometheus', 'prometheus'],
  ['spillway/opentelemetry', 'opentelemetry'],
  ['spillway/alerts, three rules', 'alerts'],
  ['spillway/alerts, one-key-share', 'alerts by key'],
]

const nsEach = ({ decisions, cpuUs }: Turn) => (cpuUs / decisions) * 1000

export async function observing(effort: Effort): Promise<Report> {
  const contenders = OBSERVERS.map(
    ([name, observer]): Contender => ({ name, file: 'observing.mjs', setup: { observer } }),
  )
  progress('observers')
  for (const contender of contenders) {
    const passed = await withProcess(contender, child => child.ask<number>('check'))
    if (passed !== 10) throw new Error(`with ${contender.name} ${passed} of 30 passed at quota 10`)
  }
  const turns = await contest<Turn>(contenders, effort, {
    warmUp: child => child.ask('run', { ms: 400 }),
    turn: async child => {
      const turn = await child.ask<Turn>('run', { ms: 300 * effort.stretch })
      if (child.contender.name === COUNTING && turn.told !== turn.decisions) {
        throw new Error(`${turn.told} of ${turn.decisions} decisions were told`)
      }
      return turn
    },
  })
  const claims: Claim[] = [
    {
      text: `${COUNTING}: CPU time of a decision ÷ ${NONE}`,
      bound: 'at most',
      target: 1.1,
      measured: ratio(turns, COUNTING, NONE, nsEach),
    },
  ]
  return {
    title: 'Observers',
    method:
      'CPU time of `RateLimiter.consume` on a token bucket in memory, awaited, for 10 000 keys in turn. The observer is given to the limiter; metrics are not ' +
      'collected meanwhile.',
    tables: [
      {
        caption: 'A decision in memory, observed',
        head: ['observer', 'ns each', `÷ ${NONE}`],
        rows: rowsOf(turns, ({ name, of, against }) => [name, of(nsEach), against(NONE, nsEach)]),
      },
    ],
    claims,
  }
}

await runAlone(import.meta, observing)
