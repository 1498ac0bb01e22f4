// What a call costs the process that waits for a partner's limit, by how many wait for the same partner; what it costs
// Redis; and how well eight processes keep to budgets whose costs are estimates.
import { politeFetch } from '../src/outgoing/index.js'
import { type ChatShow, chatShow } from '../test/support/chat-show.js'
import { RedisServer } from '../test/support/redis-server.js'
import { type Contender, contest, type Effort, withProcess } from './contest/contest.js'
import { figure, median, ratio, rowsOf } from './contest/figures.js'
import { type Claim, progress, type Report, runAlone } from './contest/report.js'

interface Turn {
  readonly calls: number
  /** CPU time, µs. */
  readonly joined: number
  readonly left: number
}

const COUNTS = [100, 1000, 10_000]
const nameOf = (waiting: number) => `${figure(waiting)} a partner`
const [FEW, , MANY] = COUNTS.map(nameOf)

const joinedUs = ({ calls, joined }: Turn) => joined / calls
const leftUs = ({ calls, left }: Turn) => left / calls

const ORIGIN = 'https://partner.example'
/** Calls of a batch, and its budgets. */
const [BATCH, BUDGETS] = [50, 8]
const PROCESSES = 8
const CHATS = 625
const KILL_AFTER_MS = 20_000

/**
 * Script calls that Redis gets for one call after another to a partner with one budget, a call each, and for a batch of
 * calls that leave at once, without their answers.
 */
async function scripts(): Promise<{ readonly alone: number; readonly batch: number }> {
  const redis = await RedisServer.start()
  const client = redis.client()
  const scriptsOf = async (work: () => Promise<unknown>) => {
    await client.config('RESETSTAT')
    await work()
    // What was answered is told at the end of a turn.
    await new Promise(resolve => setTimeout(resolve, 50))
    return Number(/cmdstat_evalsha:calls=(\d+)/.exec(await client.info('commandstats'))?.[1])
  }
  const once = async () => new Response(null)
  const one = politeFetch({ client, fetch: once, limits: { [ORIGIN]: { rate: 10_000, interval: '1m' } } })
  const open: (() => void)[] = []
  const never: typeof fetch = () => new Promise((_, reject) => open.push(() => reject(new Error('ended'))))
  const list = Array.from({ length: BUDGETS }, (_, i) => ({ rate: 10_000, interval: '1m', name: `b${i}` }) as const)
  const limits = { [ORIGIN]: { budgets: list, concurrency: 100 } }
  const many = politeFetch({ client, fetch: never, limits })
  // The first calls also ask for the server's clock and for a pause of the partner.
  await one(ORIGIN)
  void many(ORIGIN).catch(() => {})
  await new Promise(resolve => setTimeout(resolve, 50))
  const alone = await scriptsOf(async () => {
    for (let call = 0; call < 100; call++) await one(ORIGIN)
  })
  const batch = await scriptsOf(async () => {
    for (let call = 0; call < BATCH; call++) void many(ORIGIN).catch(() => {})
  })
  for (const end of open) end()
  await new Promise(resolve => setTimeout(resolve, 50))
  client.disconnect()
  await redis.stop()
  return { alone: alone / 100, batch }
}

/** In percent. */
const share = (value: number) => median([100 * value])
const chatRow = (name: string, { refused, used, seconds }: ChatShow) => [
  name,
  figure(refused),
  `${figure((100 * refused) / (PROCESSES * CHATS))} %`,
  `${figure(100 * used)} %`,
  `${figure(seconds)} s`,
]

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
  progress('outgoing: script calls')
  const { alone, batch } = await scripts()
  progress('outgoing: eight processes with budgets')
  const all = await chatShow(PROCESSES, CHATS)
  progress('outgoing: one of them is killed')
  const killed = await chatShow(PROCESSES, CHATS, KILL_AFTER_MS)
  const claims: Claim[] = [
    {
      text: 'script calls of a call, with its answer, to a partner with one budget',
      bound: 'at most',
      target: 2,
      measured: median([alone]),
      unit: 'calls',
    },
    {
      text: `script calls for ${BATCH} calls that leave at once, each from ${BUDGETS} budgets and a place`,
      bound: 'exactly',
      target: 1,
      measured: median([batch]),
      unit: 'calls',
    },
    {
      text: 'eight processes: calls that the partner refuses',
      bound: 'at most',
      target: 0.5,
      measured: share(all.refused / (PROCESSES * CHATS)),
      unit: '%',
    },
    {
      text: 'eight processes: used share of the tokens',
      bound: 'at least',
      target: 95,
      measured: share(all.used),
      unit: '%',
    },
    {
      text: 'used share of the tokens: from an interval after kill -9 of one process ÷ before',
      bound: 'at least',
      target: 0.97,
      measured: median([killed.used / killed.usedBefore]),
    },
    {
      text: `CPU time of a call that begins to wait: ${MANY} ÷ ${FEW}`,
      bound: 'at most',
      target: 2,
      measured: ratio(turns, MANY, FEW, joinedUs),
    },
    {
      text: `CPU time of a call that begins to wait: ${FEW} ÷ ${MANY}`,
      bound: 'at most',
      target: 2,
      measured: ratio(turns, FEW, MANY, joinedUs),
    },
  ]
  return {
    title: 'Outgoing calls that wait',
    method:
      'CPU time of `politeFetch` in one process for a call to a partner whose rate is used up: until it waits, and when its signal ends it. 10,000 calls wait in each case, ' +
      'for 100 partners, 10 or 1, because the garbage collector moves all that wait. The rate is as large as the number of calls that wait for a partner. Budgets: eight processes of one machine make 5,000 calls of 1 to 4,000 tokens at once to a partner that counts for itself, under 500 calls and 200,000 tokens in any 2 s, answers ' +
      'within 10 ms and streams 25 ms; four of five estimates are too high, one is too low, by up to 3 times. Used: of the tokens in any interval, as an average from an interval after the beginning (or ' +
      'the kill, after 20 s) until calls run out.',
    tables: [
      {
        caption: 'A call that waits',
        head: ['calls that wait', 'µs until it waits', `÷ ${FEW}`, 'µs when it is aborted'],
        rows: rowsOf(turns, ({ name, of, against }) => [name, of(joinedUs), against(FEW, joinedUs), of(leftUs)]),
      },
      {
        caption: 'Budgets over eight processes',
        head: ['', 'refused', 'of all calls', 'tokens used', 'measured for'],
        rows: [chatRow('all processes', all), chatRow('one is killed', killed)],
      },
    ],
    claims,
  }
}

await runAlone(import.meta, outgoing)
