import { algorithmOf } from './algorithms/registry.js'
import { PolicyError, shown } from './core/errors.js'
import { countedSpan, type Limit, type Policy } from './core/limit.js'
import { type Charge, DEFAULT_LIMITER } from './store.js'

/**
 * For a store of your own: what a count belongs to beside the limiter's name and the key, as text of printable ASCII, at
 * most 200 characters. Of one limiter, limits with equal texts share their counts, blocks and waiters, and no others do:
 * the key of a count may be `${limiter ?? 'default'} ${countName(charge)} ${key}`.
 *
 * It is the algorithm with the window (of a bucket without), and a name that was given to the limit: 'login@sw60000',
 * or 'sw60000' without one. Under the limiter name 'default' a limit without a name also has its quota, '100/sw60000',
 * so that limits that nobody has named do not eat each other's units.
 */
export function countName(counted: Pick<Charge, 'limit' | 'limiter'>): string {
  const { limit, limiter } = counted
  const texts = TEXTS.get(limit) ?? textsOf(limit)
  return limiter === undefined || limiter === DEFAULT_LIMITER ? texts.byDefault : texts.named
}

/** Under the default limiter name, and under any other. */
interface Texts {
  readonly byDefault: string
  readonly named: string
}

const TEXTS = new WeakMap<Limit, Texts>()

function textsOf(limit: Limit): Texts {
  const { name, namedAfter, algorithm } = limit
  const kind = `${algorithmOf(algorithm).keySuffix}${countedSpan(limit)}`
  // What follows a name has no '@', so no text is made in two of these ways.
  const own = `${name}@${kind}`
  const texts =
    namedAfter === undefined ? { byDefault: own, named: own } : { byDefault: `${namedAfter}/${kind}`, named: kind }
  TEXTS.set(limit, texts)
  return texts
}

/** Throws `PolicyError` if two limits of a policy would share their counts. */
export function checkCounts(policy: Policy, limiter: string): void {
  const known = new Map<string, Limit>()
  for (const limit of policy) {
    const count = countName({ limit, limiter })
    const other = known.get(count)
    if (other !== undefined) {
      const what =
        limiter === DEFAULT_LIMITER ? 'quota, algorithm and window' : `${shown(limiter)}, algorithm and window`
      throw new PolicyError(
        `RateLimiter: the limits ${shown(other.name)} and ${shown(limit.name)} would share one count: without names ` +
          `they belong to ${what} (a bucket not to its window). Give one a name, like { quota: ${limit.quota}, ` +
          'window: "1m", name: "burst" } or "100/1m name=burst"',
      )
    }
    known.set(count, limit)
  }
}
