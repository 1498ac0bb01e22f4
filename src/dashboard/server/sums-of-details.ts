import type { Histogram } from '../histogram.js'
import type { LevelRow, ProcessDetails } from '../process-details.js'

type Details = ReadonlyMap<string, ProcessDetails>

/** The recent deliveries of all processes, by queue. */
export function histogramsOf(details: Details) {
  const queues = new Map<string, { lateness: Histogram; deliveries: number; attempts: number }>()
  for (const { deliveries } of details.values()) {
    for (const row of deliveries) {
      const sum = queues.get(row.queue) ?? { lateness: new Map(), deliveries: 0, attempts: 0 }
      for (const [bucket, count] of row.lateness) sum.lateness.set(bucket, (sum.lateness.get(bucket) ?? 0) + count)
      sum.deliveries += row.deliveries
      sum.attempts += row.attempts
      queues.set(row.queue, sum)
    }
  }
  return queues
}

/** The current levels of all processes together, or of those that are meant. */
export function levelsOf(details: Details, isMeant: (process: string) => boolean = () => true): LevelRow[] {
  const sums = new Map<string, LevelRow>()
  for (const [process, { levels }] of details) {
    if (!isMeant(process)) continue
    for (const row of levels) {
      const id = `${row.object} ${row.name}`
      const known = sums.get(id)
      sums.set(
        id,
        known === undefined
          ? row
          : { ...row, inUse: plus(known.inUse, row.inUse), waiting: plus(known.waiting, row.waiting) },
      )
    }
  }
  return [...sums.values()]
}

function plus(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined && b === undefined ? undefined : (a ?? 0) + (b ?? 0)
}
