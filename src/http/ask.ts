import { SpillwayError, shown } from '../errors.js'
import { type Eventual, isPromise } from './eventual.js'
import type { Ask } from './settings.js'

/** Asks the service; what it throws becomes an object at least. */
export function ask<Request, Response, Value>(
  question: Ask<Request, Response, Value>,
  req: Request,
  res: Response,
): Eventual<Value> {
  try {
    const answer = question(req, res)
    return isPromise(answer) ? answer.then(undefined, fail) : answer
  } catch (error) {
    return fail(error)
  }
}

function fail(error: unknown): never {
  if (typeof error === 'object' && error !== null) throw error
  throw new SpillwayError(`rateLimit: a function of the options threw ${shown(error)}: expected an Error`, {
    cause: error,
  })
}
