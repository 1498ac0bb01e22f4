/**
 * Names of clients in an order without pattern, the same in every process: repeated from the start when it is through.
 *
 * @param {number} count
 * @returns {string[]}
 */
export function clients(count) {
  const names = Array.from({ length: count }, (_, i) => `client:${i}`)
  let seed = 42
  for (let i = count - 1; i > 0; i--) {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
    const j = seed % (i + 1)
    const name = names[i]
    names[i] = names[j]
    names[j] = name
  }
  return names
}

/** No key may expire during a run: the benchmark measures decisions, not the removal of keys. */
export const WINDOW_MS = 600_000

/** Never reached. */
export const PLENTY = 1_000_000_000
