import { IncomingMessage } from 'node:http'
import type { Request } from 'express'
import type { Decision } from '../decision.js'

const decisions = new WeakMap<object, Decision>()

/** Leaves a decision on a request, as `req.rateLimit`. */
export function leaveDecision(req: Request, decision: Decision): void {
  if (!('rateLimit' in req)) extend(req)
  req.rateLimit = decision
}

/**
 * Gives all requests of Express a property `rateLimit`, at its own place for extensions: its `request` prototype.
 *
 * Express changes the prototype of each request, and to such an object V8 adds a property so slowly that it would be the
 * dearest part of the whole decision. A request that is not of Express (a test's, say) just gets the property.
 */
function extend(req: Request): void {
  let shared: object | null = Object.getPrototypeOf(req)
  while (shared && Object.getPrototypeOf(shared) !== IncomingMessage.prototype) shared = Object.getPrototypeOf(shared)
  if (!shared) return
  Object.defineProperty(shared, 'rateLimit', {
    configurable: true,
    enumerable: true,
    get(this: Request) {
      return decisions.get(this)
    },
    set(this: Request, decision: Decision) {
      decisions.set(this, decision)
    },
  })
}
