/** With few rows, gaps are more informative than merged rows. */
const FEWEST_ROWS = 24

/**
 * Whether rows of this length have so many gaps that a chart would look like a comb, as for a log that was written for a minute in each
 * hour: then a longer row is clearer. A few long gaps do not count.
 */
export function hasManyGaps(rows: readonly number[], spanSeconds: number): boolean {
  let gaps = 0
  for (let i = 1; i < rows.length; i++) if (rows[i] > rows[i - 1] + spanSeconds) gaps++
  return rows.length >= FEWEST_ROWS && gaps > rows.length / 4
}
