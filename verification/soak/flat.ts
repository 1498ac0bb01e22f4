/** What a series of one measure shows: whether it is flat. */
export interface Flatness {
  readonly first: number
  readonly last: number
  /** The rise from the first to the last sample that a straight line through all of them has. */
  readonly rise: number
  /** How far the rise may be off by the scatter of the samples alone: four standard errors. */
  readonly noise: number
  readonly flat: boolean
}

/**
 * Whether a series rises by no more than its own scatter, or by no more than `share` of its mean: a leak does both, and
 * the longer the run the more of it. The line is that of least squares; samples are the means of `blocks` equal parts,
 * since neighbours are alike. At least 12 samples.
 */
export function flatness(samples: readonly number[], share = 0.02, blocks = 12): Flatness {
  if (samples.length < blocks)
    throw new RangeError(`flatness: given ${samples.length} samples, expected at least ${blocks}`)
  const means = Array.from({ length: blocks }, (_, i) =>
    mean(samples.slice(Math.floor((i * samples.length) / blocks), Math.floor(((i + 1) * samples.length) / blocks))),
  )
  const [middle, center] = [(blocks - 1) / 2, mean(means)]
  const spread = means.reduce((sum, _, i) => sum + (i - middle) ** 2, 0)
  const slope = means.reduce((sum, value, i) => sum + (i - middle) * (value - center), 0) / spread
  const squares = means.reduce((sum, value, i) => sum + (value - center - slope * (i - middle)) ** 2, 0)
  const rise = slope * (blocks - 1)
  const noise = 4 * Math.sqrt(squares / (blocks - 2) / spread) * (blocks - 1)
  return { first: means[0], last: means[blocks - 1], rise, noise, flat: rise <= Math.max(noise, share * center) }
}

export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}
