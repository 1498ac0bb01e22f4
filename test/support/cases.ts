import { type Random, randomFrom } from './random.js'

/** Enough to keep a connection busy; few, so that no case takes so long that Redis forgets keys of a clock that stands still. */
const AT_ONCE = 50

/** Runs `check` for so many cases, each with random numbers of its own. A failure says how to play it again. */
export async function forCases(
  count: number,
  seed: string,
  check: (random: Random, id: string) => Promise<void>,
): Promise<void> {
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
