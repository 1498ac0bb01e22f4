// Limits that follow load: adaptive permits and the best fixed limit under overload, `shed` before a real service,
// and what `processLoad` costs.
import { simulated } from './adaptive/overload.js'
import { realPermits } from './adaptive/real-permits.js'
import { measuringCost, shedding } from './adaptive/shedding.js'
import type { Effort } from './contest/contest.js'
import { progress, type Report, runAlone } from './contest/report.js'

export async function adaptive(effort: Effort): Promise<Report> {
  progress('adaptive permits, simulated')
  const overloads = simulated()
  // Each turn lasts tens of seconds by itself: few of them tell enough.
  const short = { ...effort, generations: 1, rounds: Math.min(2, effort.rounds), stretch: effort.stretch / 2 }
  const permits = await realPermits(short)
  const shed = await shedding(short)
  const cost = await measuringCost(short)
  return {
    title: 'Limits that follow load',
    method:
      'Permits: a simulated service, the same requests for each contender; the slowest second counts. Throughput and p99 are those from 10 s on. It follows when ' +
      'every later second has 95 % of the capacity and a p99 of at most 60 ms. The best fixed limit has the most throughput for each ms of p99, found by trying. ' +
      'Before a real service the first ten seconds of the overload do not count; p99 is compared with that of five clients. Shedding: a real Express process; its capacity is measured first, then autocannon sends twice as much; the first five seconds do not count. The cost of ' +
      '`processLoad` is the CPU time of an idle process, less that of one without it.',
    tables: [overloads.table, permits.table, shed.table],
    claims: [...overloads.claims, ...permits.claims, ...shed.claims, cost],
  }
}

await runAlone(import.meta, adaptive)
