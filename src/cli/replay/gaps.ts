/** Few rows tell more with gaps than joined. */
const FEWEST_ROWS = 24

/**
 * Whether rows of a span are so often interrupted that a chart of them would be a comb, as of a log that was written for a minute in each
 * hour: then a longer span tells more. A few long gaps are none of that.
 */
export function isComb(rows: readonly number[], spanSeconds: number): boolean {
  let gaps = 0
  for (let i = 1; i < rows.length; i++) if (rows[i] > rows[i - 1] + spanSeconds) gaps++
  return rows.length >= FEWEST_ROWS && gaps > rows.length / 4
}
