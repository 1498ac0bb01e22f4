// Compares ways of setting the limit under the same overloads, in simulated time.
import { figure, single, type Table } from '../contest/figures.js'
import type { Claim } from '../contest/report.js'
import { adaptive, fixed, MIXED, play, type Scenario, type Second, summary } from './simulation.js'

const SLOTS = 50
const FEWER_SLOTS = 17
const WORK_MS = 20
/** The capacity of the service in requests a second. */
const CAPACITY = (SLOTS * 1000) / WORK_MS
export const LONGEST_MS = 3 * WORK_MS
/** Capacity drops at the first moment and returns at the second, in seconds. */
export const DROPS_AT = 20
export const RETURNS_AT = 40

const OVERLOAD: Scenario = { seconds: 60, offered: () => 3 * CAPACITY, slots: () => SLOTS, workMs: WORK_MS }
const DROP: Scenario = {
  ...OVERLOAD,
  slots: second => (second >= DROPS_AT && second < RETURNS_AT ? FEWER_SLOTS : SLOTS),
}

const ADAPTIVE = 'adaptivePermits'
const NO_LIMIT = 'no limit'

/** Runs each contender, a fixed limit and no limit through a drop of the capacity. */
export function drops(): Map<string, Second[]> {
  return new Map([...contenders(SLOTS)].map(([name, permits]) => [name, play(DROP, permits())]))
}

/**
 * The fixed limit with the highest throughput ÷ p99, found by trying. Every change of the service needs a new search.
 */
function bestFixed(): number {
  const power = (limit: number) => {
    const { perSecond, p99 } = summary(play({ ...OVERLOAD, seconds: 15 }, fixed(limit)).slice(5))
    return perSecond / p99
  }
  const powers = Array.from({ length: 41 }, (_, i) => [40 + i, power(40 + i)] as const)
  return powers.reduce((best, one) => (one[1] > best[1] ? one : best))[0]
}

/** Created anew for each run, because they have state. */
function contenders(fixedLimit: number): Map<string, () => ReturnType<typeof fixed>> {
  return new Map<string, () => ReturnType<typeof fixed>>([
    [ADAPTIVE, adaptive],
    [`fixed: ${fixedLimit}`, () => fixed(fixedLimit)],
    [NO_LIMIT, () => fixed(Number.POSITIVE_INFINITY)],
  ])
}

/** Seconds from a change until throughput and times are good again; infinite if they are not before `until`. */
function followedAfter(seconds: readonly Second[], from: number, until: number, capacity: number): number {
  const isGood = ({ done, p99 }: Second) => done >= 0.95 * capacity && p99 <= LONGEST_MS
  for (let at = until; at > from; at--) {
    if (!isGood(seconds[at - 1])) return at === until ? Number.POSITIVE_INFINITY : at - from
  }
  return 0
}

export function simulated(): { table: Table; claims: Claim[] } {
  const rows: string[][] = []
  const claims: Claim[] = []
  for (const [name, permits] of contenders(bestFixed())) {
    const seconds = play(OVERLOAD, permits())
    const [minute, later] = [summary(seconds.slice(10)), summary(seconds.slice(20))]
    const dropped = play(DROP, permits())
    const down = followedAfter(dropped, DROPS_AT, RETURNS_AT, CAPACITY * (FEWER_SLOTS / SLOTS))
    const up = followedAfter(dropped, RETURNS_AT, 60, CAPACITY)
    // Without refusals, the requests of ten minutes would not fit into memory.
    const late = name === NO_LIMIT ? undefined : summary(play({ ...OVERLOAD, seconds: 600 }, permits()).slice(570))
    const swing = later.swing / later.meanLimit
    rows.push([
      name,
      `${figure((100 * minute.perSecond) / CAPACITY)} %`,
      `${figure(minute.p99)} ms`,
      late ? `${figure(late.p99)} ms` : 'grows on',
      Number.isFinite(later.meanLimit) ? `${figure(later.meanLimit)} ± ${figure(later.swing)}` : '–',
      Number.isFinite(down) ? `${down} s` : 'no',
      Number.isFinite(up) ? `${up} s` : 'no',
    ])
    if (name !== ADAPTIVE) continue
    const claim = (text: string, bound: Claim['bound'], target: number, measured: number, unit: string) =>
      claims.push({ text: `${name}, simulated: ${text}`, bound, target, measured: single(measured), unit })
    claim('throughput at 3 × overload, of capacity', 'at least', 95, (100 * minute.perSecond) / CAPACITY, '%')
    claim('p99 from 10 s on, slowest second', 'at most', LONGEST_MS, minute.p99, 'ms')
    claim('p99 after ten minutes', 'at most', LONGEST_MS, late?.p99 ?? Number.POSITIVE_INFINITY, 'ms')
    claim(
      'swing of the limit about its mean, 20 to 60 s',
      'at most',
      Math.max(15, 100 / later.meanLimit),
      100 * swing,
      '%',
    )
    const mixed = summary(play({ ...OVERLOAD, spread: MIXED }, permits()).slice(10))
    claim(
      'throughput, one request in ten takes eleven times as long',
      'at least',
      95,
      (100 * mixed.perSecond) / CAPACITY,
      '%',
    )
    claim('capacity drops to a third: followed after', 'at most', 10, down, 's')
    claim('capacity returns: followed after', 'at most', 10, up, 's')
  }
  const head = ['limit', 'throughput', 'p99', 'p99 after 10 min', 'limit, 20–60 s', 'follows a drop', 'and the return']
  return {
    table: { caption: `A service of ${SLOTS} at ${WORK_MS} ms, offered 3 × its capacity (simulated)`, head, rows },
    claims,
  }
}
