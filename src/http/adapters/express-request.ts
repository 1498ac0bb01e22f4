import { IncomingMessage } from 'node:http'
import type { Request } from 'express'
import { ExistingObject } from '../../limiter/core/maps.js'
import type { Trust } from '../framework.js'

const NAME = 'rateLimit'
/** The prototypes of requests on which `rateLimit` is our accessor, their own or inherited. */
const EXTENDED = new WeakSet<object>()

/**
 * Stores a decision on a request, as `req.rateLimit`; the drop-in for express-rate-limit stores its own object there.
 */
export function leaveDecision(req: Request, decision: object): void {
  leaveOnRequest(req, NAME, decision)
}

/** Stores a value on a request, as a property of that name. */
export function leaveOnRequest(req: Request, name: string, value: unknown): void {
  if (name === NAME && isExtended(req) && req.rawHeaders) RequestValues.setValue(req.rawHeaders, NAME, value)
  else {
    extend(req, name)
    ;(req as unknown as Record<string, unknown>)[name] = value
  }
}

/**
 * Values of a request are stored in private fields of `req.rawHeaders`, an array that each request has and that
 * services do not replace, as they do with `res.locals`.
 *
 * It is also the cheapest place. Express changes the prototype of each request and response; V8 adds a property to such
 * an object so slowly that it would be the most expensive part of the whole decision.
 */
class RequestValues extends ExistingObject {
  #decision: unknown
  #others: Map<string, unknown> | undefined

  static decision(holder: object): unknown {
    return #decision in holder ? holder.#decision : undefined
  }

  static value(holder: object, name: string): unknown {
    if (name === NAME) return RequestValues.decision(holder)
    return #others in holder ? holder.#others?.get(name) : undefined
  }

  static setValue(holder: object, name: string, value: unknown): void {
    const kept = RequestValues.#on(holder)
    if (name === NAME) kept.#decision = value
    else {
      kept.#others ??= new Map()
      kept.#others.set(name, value)
    }
  }

  static #on(holder: object): RequestValues {
    return #decision in holder ? holder : (new RequestValues(holder) as RequestValues)
  }
}

const LEFTMOST: Trust = {
  anybody: "Express takes the leftmost address of X-Forwarded-For (app.set('trust proxy', true))",
}

/** Whose claims about the client's address an Express app believes. */
export function trustOf(req: Request): Trust {
  const setting: unknown = req.app.get('trust proxy')
  if (setting === true) return LEFTMOST
  return setting ? 'some' : 'nobody'
}

let lastPrototype: object | null = null

/** Whether requests of this prototype have our accessor. Checking the request itself takes longer. */
function isExtended(req: Request): boolean {
  const prototype = Object.getPrototypeOf(req)
  if (prototype === lastPrototype) return prototype !== null
  if (prototype === null || !EXTENDED.has(prototype)) return false
  lastPrototype = prototype
  return true
}

/**
 * Gives all requests of an Express app a property, at its place for extensions: the `request` prototype. A request from
 * elsewhere (for example a test) gets a plain property.
 */
function extend(req: Request, name: string): void {
  const prototype = Object.getPrototypeOf(req)
  let shared: object | null = prototype
  while (shared && Object.getPrototypeOf(shared) !== IncomingMessage.prototype) shared = Object.getPrototypeOf(shared)
  if (!shared || !req.rawHeaders) return
  if (!(name in shared)) define(shared, name)
  // A mounted app has its own prototype above the shared one.
  if (name === NAME && EXTENDED.has(shared)) EXTENDED.add(prototype)
}

function define(shared: object, name: string): void {
  Object.defineProperty(shared, name, {
    configurable: true,
    enumerable: true,
    get(this: Request) {
      return this.rawHeaders ? RequestValues.value(this.rawHeaders, name) : undefined
    },
    set(this: Request, value: unknown) {
      if (this.rawHeaders) RequestValues.setValue(this.rawHeaders, name, value)
      else Object.defineProperty(this, name, { value, writable: true, enumerable: true, configurable: true })
    },
  })
  if (name === NAME) EXTENDED.add(shared)
}
