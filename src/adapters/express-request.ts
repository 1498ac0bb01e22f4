import { IncomingMessage } from 'node:http'
import type { Request, Response } from 'express'
import type { Decision } from '../core/decision.js'

type Locals = Record<symbol, unknown>

const NAME = 'rateLimit'
/** Where values lie in `res.locals`, by the name of the property. */
const PLACES = new Map<string, symbol>()
const DECISION = placeOf(NAME)
/** The prototypes of requests that have the property `rateLimit` from us, as their own or from further up. */
const EXTENDED = new WeakSet<object>()

/** Leaves a decision on a request, as `req.rateLimit`; or what the drop-in for express-rate-limit leaves there in its place. */
export function leaveDecision(req: Request, res: Response, decision: object): void {
  if (isExtended(req) && res.locals) (res.locals as Locals)[DECISION] = decision
  else leaveOnRequest(req, NAME, decision)
}

/** The decision that was left on a request, or what others have put in its place. */
export function decisionOn(req: Request, res: Response): Decision | undefined {
  return isExtended(req) && res.locals ? ((res.locals as Locals)[DECISION] as Decision | undefined) : req.rateLimit
}

/** Leaves a value on a request, as a property of that name. */
export function leaveOnRequest(req: Request, name: string, value: unknown): void {
  extend(req, name)
  ;(req as unknown as Record<string, unknown>)[name] = value
}

let lastPrototype: object | null = null

/** Whether the property of this very kind of requests is ours. To ask the request itself takes longer. */
function isExtended(req: Request): boolean {
  const prototype = Object.getPrototypeOf(req)
  if (prototype === lastPrototype) return prototype !== null
  if (prototype === null || !EXTENDED.has(prototype)) return false
  lastPrototype = prototype
  return true
}

/**
 * Gives all requests of an Express app a property, at its own place for extensions: its `request` prototype. The values lie in
 * `res.locals`, which every response of Express has for such things.
 *
 * Express changes the prototype of each request, and to such an object V8 adds a property so slowly that it would be the
 * dearest part of the whole decision; a WeakMap keeps the garbage collector as busy. A request that is not of Express (a
 * test's, say) just gets the property.
 */
function extend(req: Request, name: string): void {
  const prototype = Object.getPrototypeOf(req)
  let shared: object | null = prototype
  while (shared && Object.getPrototypeOf(shared) !== IncomingMessage.prototype) shared = Object.getPrototypeOf(shared)
  if (!shared || !req.res?.locals) return
  if (!(name in shared)) define(shared, name)
  // A mounted app has a prototype of its own above the shared one.
  if (name === NAME && EXTENDED.has(shared)) EXTENDED.add(prototype)
}

function define(shared: object, name: string): void {
  const place = placeOf(name)
  Object.defineProperty(shared, name, {
    configurable: true,
    enumerable: true,
    get(this: Request) {
      return (this.res?.locals as Locals | undefined)?.[place]
    },
    set(this: Request, value: unknown) {
      const locals = this.res?.locals as Locals | undefined
      if (locals) locals[place] = value
      else Object.defineProperty(this, name, { value, writable: true, enumerable: true, configurable: true })
    },
  })
  if (name === NAME) EXTENDED.add(shared)
}

function placeOf(name: string): symbol {
  let place = PLACES.get(name)
  if (place === undefined) {
    place = Symbol(name)
    PLACES.set(name, place)
  }
  return place
}
