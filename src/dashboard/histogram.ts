/** Durations in buckets that grow by a fifth: small, and summable over processes without losing percentiles. */
const PER_DOUBLING = 4

/** Bucket → how many. */
export type Histogram = Map<number, number>

export function addDuration(histogram: Histogram, ms: number): void {
  const bucket = Math.max(0, Math.ceil(PER_DOUBLING * Math.log2(Math.max(0, ms) + 1)))
  histogram.set(bucket, (histogram.get(bucket) ?? 0) + 1)
}

/** The duration that a share (0 to 1) of all do not exceed, in ms, at most a fifth too large; undefined if empty. */
export function percentile(histogram: Histogram, share: number): number | undefined {
  const bucket = atMost(histogram, share)
  return bucket === undefined ? undefined : 2 ** (bucket / PER_DOUBLING) - 1
}

/** The value that a share (0 to 1) of all counted values do not exceed; undefined if nothing was counted. */
export function atMost(counts: ReadonlyMap<number, number>, share: number): number | undefined {
  let left = 0
  for (const count of counts.values()) left += count
  if (left === 0) return undefined
  left = Math.ceil(left * share)
  const values = [...counts.keys()].sort((a, b) => a - b)
  return values.find(value => {
    left -= counts.get(value) ?? 0
    return left <= 0
  })
}
