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
  let total = 0
  for (const count of histogram.values()) total += count
  let left = Math.ceil(total * share)
  if (total === 0) return undefined
  for (const bucket of [...histogram.keys()].sort((a, b) => a - b)) {
    left -= histogram.get(bucket) ?? 0
    if (left <= 0) return 2 ** (bucket / PER_DOUBLING) - 1
  }
  return undefined
}
