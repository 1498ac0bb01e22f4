import { PolicyError } from '../limiter/core/errors.js'
import { BoundedMap, getOrMake } from '../limiter/core/maps.js'
import { emitWarning } from '../limiter/core/warnings.js'

/** The example options of each middleware. */
const EXAMPLES: Readonly<Record<string, string>> = {
  rateLimit: "{ policy: '100/1m' }",
  concurrencyLimit: '{ permits: 5 }',
  addressKey: '{ proxies: 1 }',
  shed: '{ load: processLoad(), priority: req => (req.user ? 0 : 3) }',
}

/**
 * Throws `PolicyError` for options that are what a framework passes to middleware: `app.use(rateLimit)`, which was not
 * called.
 */
export function checkIsCalled(user: string, options: unknown): void {
  if (typeof options !== 'object' || options === null) return
  const isRequest = 'headers' in options && 'method' in options
  if (!isRequest && !['req', 'raw', 'addHook'].some(name => name in options)) return
  throw new PolicyError(
    `${user}: given a request or a context instead of options: call it first, like ${user}(${EXAMPLES[user]})`,
  )
}

/** The adapters whose middleware has the same names. */
const ENTRIES = ['express', 'koa', 'fastify', 'hono', 'h3', 'node', 'fetch'] as const

/**
 * True if the framework of an adapter has called its middleware; each checks its first call. `isRight`: whether what it
 * was given looks so. Else the `PolicyError` goes to the callback `done`, if there is one, because Fastify expects it
 * there; without one it is thrown.
 */
export function checkCaller(entry: string, user: string, isRight: boolean, done?: unknown): boolean {
  if (isRight) return true
  const [first, ...others] = ENTRIES.filter(other => other !== entry)
  const error = new PolicyError(
    `${user}: this is that of spillway/${entry}, and something else has called it: each framework has its own, ` +
      `like import { ${user} } from 'spillway/${first}'; the others: ${others.join(', ')}`,
  )
  if (typeof done !== 'function') throw error
  done(error)
  return false
}

/** Whether a value is an object with these properties. */
export function hasAll(value: unknown, ...names: readonly PropertyKey[]): boolean {
  return typeof value === 'object' && value !== null && names.every(name => name in value)
}

/** So many requests without exception make a mistake likely. */
const SUSPICIOUS = 100

/**
 * Warns, once per middleware, if the first requests all have no key: then the limiter probably runs before what
 * provides the key.
 */
export class KeyWatch {
  readonly #user: string
  /** Requests without a key so far; infinite once a request had one, or after the warning. */
  #without = 0

  constructor(user: string) {
    this.#user = user
  }

  /** A request has a key. */
  found(): void {
    this.#without = Number.POSITIVE_INFINITY
  }

  /** A request has none. */
  missed(): void {
    this.#without++
    if (this.#without !== SUSPICIOUS) return
    this.found()
    emitWarning(
      'SPILLWAY_NO_KEY',
      `${this.#user}: the first ${SUSPICIOUS} requests all had no key, so none of them was limited. If the key ` +
        'comes from an authentication, mount the limiter behind it; if requests without one should count by ' +
        'address, give them that key, like req.user?.id ?? byAddress(req), with byAddress = addressKey()',
    )
  }
}

/** Middleware of one kind: same name, same limits, each with a store of its own. */
interface Kind {
  /** One of them has decided. */
  decided: boolean
  /** How many were made after that, and have decided once. */
  once: number
}

/** More kinds than any service has; beyond, the oldest are forgotten. */
const MOST_KINDS = 1000
const KINDS = new BoundedMap<string, Kind>(MOST_KINDS)
let warnedOfCreation = false

/**
 * Warns, once per process, of a limiter that is made for each request. Each then has a count of its own, so nothing is
 * limited: many middlewares of one kind that were made while requests came, and that each have decided once.
 */
export class CreationWatch {
  readonly #kind: Kind
  readonly #late: boolean
  #decisions = 0

  /** `kind`: a text that is the same for limiters of the same name and limits. */
  constructor(kind: string) {
    this.#kind = getOrMake(KINDS, kind, () => ({ decided: false, once: 0 }))
    this.#late = this.#kind.decided
  }

  /** Counts a decision. False: it need not be told of more. */
  decided(): boolean {
    const kind = this.#kind
    kind.decided = true
    if (!this.#late || warnedOfCreation) return false
    if (++this.#decisions > 1) {
      kind.once--
      return false
    }
    if (++kind.once === SUSPICIOUS) {
      warnedOfCreation = true
      emitWarning(
        'SPILLWAY_CREATED',
        `rateLimit: ${SUSPICIOUS} limiters with the same limit were made while requests came, and each has ` +
          'decided one request, in a store of its own: nothing is limited so. Make the limiter once, outside the ' +
          "handler, like const limit = rateLimit({ policy: '100/1m' }); or give all of them one store",
      )
    }
    return true
  }
}
