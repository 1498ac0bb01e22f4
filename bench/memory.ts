// Decisions a second in one process, against the peers' stores in memory and against a bare Map.
import { type Contender, checkQuota, contest, type Effort, type Turns } from './contest/contest.js'
import { ratio, rowsOf, type Table } from './contest/figures.js'
import { type Claim, progress, type Report, runAlone } from './contest/report.js'

interface Turn {
  readonly decisions: number
  readonly passed: number
  readonly ms: number
}

const ALGORITHMS = ['fixed-window', 'token-bucket', 'sliding-window', 'sliding-counter', 'leaky-bucket']
const ERL = 'express-rate-limit'
const RLF = 'rate-limiter-flexible'
const STORE = 'spillway store fixed-window, synchronous'
const MAP = 'bare Map'
const BY_HAND = 'our answer by hand'
const COMPARED = ['fixed-window', 'token-bucket', 'sliding-window']
const AWAITED = COMPARED.map(algorithm => `spillway ${algorithm}`)
const DECIDED = COMPARED.map(algorithm => `spillway decide ${algorithm}`)

const perSecond = ({ decisions, ms }: Turn) => (decisions / ms) * 1000

export async function memory(effort: Effort): Promise<Report> {
  progress('in memory: does every contender limit?')
  await checkQuota(contenders('one hot key'))
  const hot = await measure('one hot key', effort)
  const many = await measure('100 000 keys', effort)
  const denied = await measure('denied', effort)
  return {
    title: 'Decisions in memory',
    method:
      'Decisions one after another in one process: `RateLimiter.consume`, and `RateLimiter.decide` without await; `MemoryStore.increment` of express-rate-limit and ' +
      '`RateLimiterMemory.consume` of rate-limiter-flexible, each of these awaited and its answer looked at; the synchronous ' +
      '`MemoryStore.consume` against a bare `Map` of counters (get, compare `Date.now()` with the end of the window, count). The peers count ' +
      'fixed windows, so that fixed-window is compared. ' +
      `"${BY_HAND}" is a Map of counters whose awaited answer has all the fields of our decision: the least that such an answer takes.`,
    tables: [table('one hot key', hot), table('100 000 keys', many), table('denied, one hot key', denied)],
    claims: [...claims('one hot key', hot), ...claims('100 000 keys', many), ...denials(denied)],
  }
}

function contenders(traffic: string): Contender[] {
  const one = (name: string, setup: object): Contender => ({ name, file: 'memory.mjs', setup: { ...setup, traffic } })
  return [
    ...ALGORITHMS.map(algorithm => one(`spillway ${algorithm}`, { contender: 'spillway', algorithm })),
    ...COMPARED.map(algorithm => one(`spillway decide ${algorithm}`, { contender: 'spillway decide', algorithm })),
    ...[ERL, RLF].map(name => one(name, { contender: name })),
    one(STORE, { contender: 'spillway store', algorithm: 'fixed-window' }),
    one(MAP, { contender: MAP }),
    one(BY_HAND, { contender: BY_HAND }),
  ]
}

async function measure(traffic: string, effort: Effort): Promise<Turns<Turn>> {
  progress(`in memory: ${traffic}`)
  // What V8 inlines differs from process to process, so many of them have short turns.
  const processes = { ...effort, generations: 2 * effort.generations, rounds: Math.ceil(effort.rounds / 2) }
  return contest<Turn>(contenders(traffic), processes, {
    warmUp: child => child.ask('run', { ms: 400 }),
    turn: async child => {
      const turn = await child.ask<Turn>('run', { ms: 300 * effort.stretch })
      const expected = traffic === 'denied' ? 0 : turn.decisions
      if (turn.passed !== expected) throw new Error(`${child.contender.name}: ${turn.passed} passed, not ${expected}`)
      return turn
    },
  })
}

function table(caption: string, turns: Turns<Turn>): Table {
  return {
    caption: `In memory, ${caption}`,
    head: ['contender', 'decisions/s', `÷ ${ERL}`, `÷ ${RLF}`, '÷ bare Map'],
    rows: rowsOf(turns, ({ name, of, against }) => [
      name,
      of(perSecond),
      ...[ERL, RLF, MAP].map(reference => against(reference, perSecond)),
    ]),
  }
}

function claims(traffic: string, turns: Turns<Turn>): Claim[] {
  const bound = 'at least'
  return [
    ...AWAITED.flatMap((name): Claim[] => [
      { text: `${name}, ${traffic}: ÷ ${ERL}`, bound, target: 0.8, measured: ratio(turns, name, ERL, perSecond) },
      { text: `${name}, ${traffic}: ÷ ${RLF}`, bound, target: 1.5, measured: ratio(turns, name, RLF, perSecond) },
    ]),
    ...DECIDED.map((name): Claim => {
      const measured = ratio(turns, name, ERL, perSecond)
      return { text: `${name}, ${traffic}: ÷ ${ERL}, awaited`, bound, target: 1, measured }
    }),
    { text: `${STORE}, ${traffic}: ÷ bare Map`, bound, target: 0.7, measured: ratio(turns, STORE, MAP, perSecond) },
  ]
}

function denials(turns: Turns<Turn>): Claim[] {
  return AWAITED.map(name => ({
    text: `${name}, denied: ÷ ${RLF}`,
    bound: 'at least',
    target: 5,
    measured: ratio(turns, name, RLF, perSecond),
  }))
}

await runAlone(import.meta, memory)
