import { IncomingMessage } from 'node:http'
import type { Request } from 'express'
import type { Decision } from '../decision.js'

/** Leaves a decision on a request, as `req.rateLimit`. */
export function leaveDecision(req: Request, decision: Decision): void {
  leaveOnRequest(req, 'rateLimit', decision)
}

/** Leaves a value on a request, as a property of that name. */
export function leaveOnRequest(req: Request, name: string, value: unknown): void {
  if (!(name in req)) extend(req, name)
  ;(req as unknown as Record<string, unknown>)[name] = value
}

/**
 * Gives all requests of Express a property, at its own place for extensions: its `request` prototype. The values lie in
 * `res.locals`, which every response of Express has for such things.
 *
 * Express changes the prototype of each request, and to such an object V8 adds a property so slowly that it would be the
 * dearest part of the whole decision; a WeakMap keeps the garbage collector as busy. A request that is not of Express (a
 * test's, say) just gets the property.
 */
function extend(req: Request, name: string): void {
  let shared: object | null = Object.getPrototypeOf(req)
  while (shared && Object.getPrototypeOf(shared) !== IncomingMessage.prototype) shared = Object.getPrototypeOf(shared)
  if (!shared || !req.res?.locals) return
  const place = Symbol(name)
  Object.defineProperty(shared, name, {
    configurable: true,
    enumerable: true,
    get(this: Request) {
      return this.res?.locals?.[place as unknown as string]
    },
    set(this: Request, value: unknown) {
      const locals: Record<string | symbol, unknown> | undefined = this.res?.locals
      if (locals) locals[place] = value
      else Object.defineProperty(this, name, { value, writable: true, enumerable: true, configurable: true })
    },
  })
}
