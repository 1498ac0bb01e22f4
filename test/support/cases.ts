import { type Random, randomFrom } from './random.js'

/** `all`, as in `npm run verify -- random`; or a number: so many times all. `npm test` plays a tenth of them. */
const { SPILLWAY_CASES = '0.1' } = process.env
const TIMES = SPILLWAY_CASES === 'all' ? 1 : Number(SPILLWAY_CASES)
if (!(TIMES > 0)) throw new Error(`SPILLWAY_CASES is ${SPILLWAY_CASES}, expected all or a number above 0`)

/** True if all random cases are played. */
export const ALL_CASES = TIMES >= 1

/** The number of random cases that this run plays, of all cases. */
export function ofCases(all: number): number {
  return Math.ceil(all * TIMES)
}

/**
 * Enough to keep a connection busy; few, so that no case takes so long that Redis forgets keys of a clock that stands
 * still.
 */
const AT_ONCE = 50

/** Runs `check` for `ofCases(all)` cases, each with random numbers of its own. A failure says how to play it again. */
export async function forCases(
  all: number,
  seed: string,
  check: (random: Random, id: string) => Promise<void>,
): Promise<void> {
  const count = ofCases(all)
  for (let first = 0; first < count; first += AT_ONCE) {
    const ids = Array.from({ length: Math.min(AT_ONCE, count - first) }, (_, i) => `${seed} ${first + i}`)
    await Promise.all(ids.map(id => replay(id, check)))
  }
}

async function replay(id: string, check: (random: Random, id: string) => Promise<void>): Promise<void> {
  try {
    await check(randomFrom(id), id)
  } catch (error) {
    ;(error as Error).message = `in the case ${JSON.stringify(id)}: ${(error as Error).message}`
    throw error
  }
}
