import { PolicyError } from '../limiter/core/errors.js'
import { BoundedMap, getOrMake } from '../limiter/core/maps.js'
import { emitWarning } from '../limiter/core/warnings.js'

/** What calls a middleware. */
export type Caller = 'express' | 'koa' | 'fastify' | 'hono' | 'node' | 'fetch'

/** The object that a framework passes first: its name in messages. */
const FIRST = {
  express: 'a request',
  koa: 'a context of Koa',
  fastify: 'a request of Fastify',
  hono: 'a context of Hono',
  node: 'a request',
  fetch: 'a Request',
} satisfies Record<Caller, string>

/** Who has called, and what to write instead. */
const INSTEAD: Record<Caller, (user: string, example: string) => string> = {
  express: (user, example) =>
    `Express has called it: import ${user} from 'spillway/express', like ${use(user, example)}`,
  koa: (user, example) => `Koa has called it: import ${user} from 'spillway/koa', like ${use(user, example)}`,
  fastify: (user, example) =>
    `Fastify has called it: import ${user} from 'spillway/fastify', like app.register(${user}, ${example})`,
  hono: (user, example) => `Hono has called it: import ${user} from 'spillway/hono', like ${use(user, example)}`,
  node: (user, example) =>
    `it was called without next: import ${user} from 'spillway/node', like const limit = ${user}(${example}), ` +
    'then if (await limit(req, res)) …',
  fetch: user => `it was called with a Request: import ${user} from 'spillway/fetch'`,
}

/** The example options of each middleware. */
const EXAMPLES: Readonly<Record<string, string>> = {
  rateLimit: "{ policy: '100/1m' }",
  concurrencyLimit: '{ permits: 5 }',
  shed: '{ load: processLoad(), priority: req => (req.user ? 0 : 3) }',
}

function use(user: string, example: string): string {
  return `app.use(${user}(${example}))`
}

function has(value: unknown, ...names: string[]): boolean {
  return typeof value === 'object' && value !== null && names.every(name => name in value)
}

function isFunction(value: unknown, name: string): boolean {
  return typeof (value as Record<string, unknown> | null | undefined)?.[name] === 'function'
}

/** The framework whose request, context or instance an object is; a request of `node:http` may also be Express's. */
function kindOf(first: unknown): Caller | undefined {
  if (isFunction(first, 'addHook') && isFunction(first, 'register')) return 'fastify'
  if (has(first, 'req', 'res', 'request', 'response')) return 'koa'
  if (has(first, 'req', 'env') && isFunction(first, 'header')) return 'hono'
  if (has(first, 'raw', 'routeOptions')) return 'fastify'
  if (!has(first, 'headers', 'method', 'url')) return undefined
  return isFunction((first as Request).headers, 'get') ? 'fetch' : 'node'
}

/**
 * Throws `PolicyError` for options that are what a framework passes to middleware: `app.use(rateLimit)`, which was not
 * called.
 */
export function checkIsCalled(user: string, options: unknown): void {
  const kind = kindOf(options)
  if (kind === undefined) return
  const example = EXAMPLES[user]
  const expected = kind === 'fetch' ? `const limit = ${user}(${example})` : use(user, example)
  throw new PolicyError(`${user}: given ${FIRST[kind]} instead of options: call it first, like ${expected}`)
}

/**
 * True if no other framework than its own has called a middleware; each checks its first call. `given`: the arguments.
 * Else the `PolicyError` goes to the callback, if there is one, because Fastify expects it there; without one it is
 * thrown.
 */
export function checkCaller(own: Caller, user: string, ...given: readonly unknown[]): boolean {
  const [first, , third] = given
  let caller = kindOf(first)
  if (caller === 'node' && typeof third === 'function') caller = 'express'
  // Middleware of Express may be called by other frameworks with the same arguments.
  if (caller === undefined || caller === own) return true
  const what = own === 'fastify' ? 'plugin' : own === 'node' || own === 'fetch' ? 'function' : 'middleware'
  const error = new PolicyError(
    `${user}: this is the ${what} of spillway/${own}, and ${INSTEAD[caller](user, EXAMPLES[user])}`,
  )
  if (typeof third !== 'function') throw error
  third(error)
  return false
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
