/** Random numbers that a seed decides, so that a failure can be played again. */
export interface Random {
  /** From `low` to `high`, both included. */
  integer(low: number, high: number): number
  pick<T>(choices: readonly T[]): T
}

/** xorshift32, seeded with a text. */
export function randomFrom(seed: string): Random {
  let state = 0x9e3779b9
  for (const letter of seed) state = Math.imul(state ^ letter.charCodeAt(0), 0x01000193) >>> 0
  const next = () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) / 0x1_0000_0000
  }
  const integer = (low: number, high: number) => low + Math.floor(next() * (high - low + 1))
  return { integer, pick: choices => choices[integer(0, choices.length - 1)] }
}
