import { describe, test } from '@jest/globals'

/** True in `npm run verify -- everywhere`: every contract runs whole, over each framework, client and version. */
const EVERYWHERE = process.env.SPILLWAY_CONTRACTS === 'everywhere'

const nothing = Object.assign(() => {}, { each: () => () => {} })

/** Declares tests, or leaves them out. */
export interface Whole {
  /** They are declared. */
  readonly runs: boolean
  readonly test: typeof test
  readonly describe: typeof describe
  /** All of them, or the first `few`, by default 2. */
  orFew<T>(all: readonly T[], few?: number): readonly T[]
}

/**
 * How a contract declares the tests of what does not depend on who keeps it: what src/http decides is the same below
 * every framework, and what a script decides is the same over every client. `npm test` runs those for one framework and
 * one client, and the thin rest for all.
 */
export function wholeFor(isTheOne: boolean): Whole {
  if (isTheOne || EVERYWHERE) return { runs: true, test, describe, orFew: all => all }
  const none = nothing as never
  return { runs: false, test: none, describe: none, orFew: (all, few = 2) => all.slice(0, few) }
}
