import type { RedisServer } from '../../test/support/redis-server.js'
import { figure, single, type Table } from '../contest/figures.js'
import { type Claim, progress } from '../contest/report.js'
import { type Outcome, trial } from './trial.js'

export interface Findings {
  readonly tables: Table[]
  readonly claims: Claim[]
}

export const FLEET = { processes: 16, demand: 2 }
const ALGORITHMS = ['sliding-window', 'token-bucket', 'fixed-window', 'sliding-counter']

/** All algorithms at once, for two windows. */
export async function minute(redis: RedisServer): Promise<Findings> {
  const policies = ALGORITHMS.map(algorithm => `10000/1m ${algorithm}`)
  // The second window of a fixed window begins a little after the first one.
  const outcomes = await trial(redis, redis.client(), { ...FLEET, policies, seconds: 121, measuredMs: 60_000 })
  return {
    tables: [outcomeTable('16 processes at twice 10000/1m, all at once', outcomes)],
    claims: [noExcess('10000/1m', outcomes), leastUsed('10000/1m', outcomes, 95)],
  }
}

/** Windows of a second, small limits: all at once. */
export async function small(redis: RedisServer): Promise<Findings> {
  const limits = ['100/1s', '1000/1s']
  const policies = limits.flatMap(limit => ALGORITHMS.map(algorithm => `${limit} ${algorithm}`))
  const outcomes = await trial(redis, redis.client(), { ...FLEET, policies, seconds: 6 })
  const of = (limit: string) => outcomes.filter(({ policy }) => policy.startsWith(`${limit} `))
  return {
    tables: [outcomeTable('16 processes at twice the limit, all at once', outcomes)],
    claims: [noExcess('100/1s and 1000/1s', outcomes), ...limits.map(limit => leastUsed(limit, of(limit), 95))],
  }
}

/** As many requests as the machine carries: each limit by itself. */
export async function large(redis: RedisServer): Promise<Findings> {
  const client = redis.client()
  const outcomes: Outcome[] = []
  for (const algorithm of ALGORITHMS) {
    progress(`leases: 100000/1s ${algorithm}`)
    outcomes.push(...(await trial(redis, client, { ...FLEET, policies: [`100000/1s ${algorithm}`], seconds: 6 })))
  }
  const calls = Math.max(...outcomes.map(({ callsPerDecision }) => callsPerDecision))
  return {
    tables: [outcomeTable('16 processes at twice 100000/1s', outcomes)],
    claims: [
      noExcess('100000/1s', outcomes),
      leastUsed('100000/1s', outcomes, 95),
      {
        text: '16 processes, 100000/1s: script calls for each decision, the most of the algorithms',
        bound: 'at most',
        target: 0.02,
        measured: single(calls),
        unit: 'calls',
      },
    ],
  }
}

/** Nearly all requests come to one process. */
export async function uneven(redis: RedisServer): Promise<Findings> {
  const client = redis.client()
  const policies = ALGORITHMS.map(algorithm => `1000/1s ${algorithm}`)
  const uneven = { ...FLEET, seconds: 5, first: 0.95 }
  const outcomes = await trial(redis, client, { ...uneven, policies })
  // Each by itself: no process of a slow machine can ask 150 000 times a second, and tell of it.
  for (const algorithm of ALGORITHMS) {
    progress(`leases: uneven traffic, 20000/1s ${algorithm}`)
    outcomes.push(...(await trial(redis, client, { ...uneven, policies: [`20000/1s ${algorithm}`] })))
  }
  return {
    tables: [outcomeTable('95 % of the requests at one process of 16', outcomes)],
    claims: [noExcess('uneven traffic', outcomes), leastUsed('uneven traffic', outcomes, 95)],
  }
}

export function noExcess(what: string, outcomes: readonly Outcome[]): Claim {
  const most = Math.max(...outcomes.map(({ breach }) => breach.excess))
  return {
    text: `16 processes, ${what}: units above the policy`,
    bound: 'at most',
    target: 0,
    measured: single(most),
    unit: 'units',
  }
}

export function leastUsed(what: string, outcomes: readonly Outcome[], percent: number): Claim {
  // A machine that does not carry enough requests leaves units that no limiter could use.
  const least = Math.min(...outcomes.map(({ used, possible }) => used / Math.min(1, possible)))
  return {
    text: `16 processes, ${what}: used, of what the requests could use, the least of the policies`,
    bound: 'at least',
    target: percent,
    measured: single(100 * least),
    unit: '%',
  }
}

export function outcomeTable(caption: string, outcomes: readonly Outcome[]): Table {
  return {
    caption,
    head: [
      'policy',
      'used %',
      'offered %',
      'possible %',
      'excess, units',
      'calls/decision',
      'from leases %',
      'decisions',
      'degraded',
    ],
    rows: outcomes.map(outcome => [
      outcome.policy,
      (100 * outcome.used).toFixed(1),
      (100 * outcome.offered).toFixed(0),
      (100 * outcome.possible).toFixed(1),
      String(Math.ceil(outcome.breach.excess)),
      outcome.callsPerDecision.toFixed(4),
      (100 * outcome.fromLeases).toFixed(1),
      figure(outcome.decisions),
      String(outcome.degraded),
    ]),
  }
}
