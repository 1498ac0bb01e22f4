import { randomFrom } from '../../test/support/random.js'
import type { Request } from './wrong-decisions.js'

const KEYS = 2
const START = Date.UTC(2026, 0, 1)

/**
 * Requests of a few keys. Each key is a Poisson process of `perWindow` requests a window on average: the requests are
 * independent of one another, with random pauses and bursts only. The same arguments give the same trace.
 */
export function poissonTrace(perWindow: number, windowMs: number, count: number): Request[] {
  const random = randomFrom(`poisson ${perWindow} ${windowMs}`)
  const requests: Request[] = []
  let at = START
  for (let i = 0; i < count; i++) {
    const chance = (random.integer(0, 2 ** 32 - 1) + 1) / 2 ** 32
    at += (-Math.log(chance) * windowMs) / perWindow / KEYS
    requests.push({ at: Math.floor(at), key: `key ${random.integer(1, KEYS)}` })
  }
  return requests
}
