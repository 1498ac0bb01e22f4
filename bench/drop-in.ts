// Requests a second of an Express service behind spillway/express-rate-limit, against the same service behind
// spillway/express.
import { type Contender, ContenderProcess, contest, type Effort, withProcess } from './contest/contest.js'
import { ratio, rowsOf } from './contest/figures.js'
import { type Claim, progress, type Report, runAlone } from './contest/report.js'
import { service, statusesInTurn } from './contest/web.js'

interface Load {
  readonly requests: number
  readonly ms: number
}

interface Turn extends Load {
  readonly serviceCpu: number
}

const CONNECTIONS = 50
/** What the change of one import line may cost at most, against moving to the native options. */
const TARGET = 0.95

const NATIVE = 'spillway, fixed-window, in memory'
const DROP_IN = 'drop-in in memory'

const perSecond = ({ requests, ms }: Turn) => (requests / ms) * 1000
const perCpu = ({ serviceCpu }: Turn) => 1 / serviceCpu

export async function dropIn(effort: Effort): Promise<Report> {
  const contenders = (quota?: number) => [
    service('express', 'spillway', { quota, algorithm: 'fixed-window' }),
    service('express', 'drop-in', { quota }),
    service('express', 'express-rate-limit', { quota }),
  ]
  for (const contender of contenders(5)) await check(contender)
  progress('the drop-in: requests')
  const clients = new ContenderProcess({ name: 'the clients', file: 'load.mjs', setup: { connections: CONNECTIONS } })
  const load = async (child: ContenderProcess, until: { ms?: number; count?: number }) =>
    clients.ask<Load>('load', { port: await child.ask<number>('port'), ...until })
  try {
    const turns = await contest<Turn>([...contenders(), service('express')], effort, {
      warmUp: child => load(child, { count: 25_000 }),
      turn: async child => {
        // A service that has waited for its turn is slow at first, and not every turn was waited for equally long.
        await load(child, { ms: 300 })
        const before = await child.ask<number>('cpu')
        const turn = await load(child, { ms: 1000 * effort.stretch })
        return { ...turn, serviceCpu: ((await child.ask<number>('cpu')) - before) / turn.requests }
      },
    })
    const claim: Claim = {
      text: 'Express, drop-in in memory: requests/s ÷ spillway/express',
      bound: 'at least',
      target: TARGET,
      measured: ratio(turns, DROP_IN, NATIVE, perSecond),
    }
    return {
      title: 'The drop-in for express-rate-limit',
      method:
        `"hello" from Express 5, ${CONNECTIONS} connections, all allowed, fixed window in memory, headers of draft 8 and legacy. Each ratio compares ` +
        'turns that stood next to each other; that of the processor time suffers less from company on the machine.',
      tables: [
        {
          caption: `Express, ${CONNECTIONS} connections`,
          head: ['limiter', 'requests/s', '÷ spillway/express', 'service CPU µs', 'spillway/express ÷ that'],
          rows: rowsOf(turns, ({ name, of, against }) => [
            name,
            of(perSecond),
            against(NATIVE, perSecond),
            of(turn => turn.serviceCpu),
            against(NATIVE, perCpu),
          ]),
        },
      ],
      claims: [claim],
    }
  } finally {
    await clients.end()
  }
}

async function check(contender: Contender): Promise<void> {
  const statuses = await withProcess(contender, async child => statusesInTurn(await child.ask('port'), 7))
  if (statuses.join() !== '200,200,200,200,200,429,429')
    throw new Error(`${contender.name} answered ${statuses} at quota 5`)
}

await runAlone(import.meta, dropIn)
