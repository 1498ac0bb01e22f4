import { SpillwayError, shown } from '../core/errors.js'
import { isPromise, type SyncOrAsync } from './sync-or-async.js'

/** Calls a function of the service; ensures that a thrown value is an object. `user` names the middleware in that error. */
export function ask<Request, Response, Value>(
  question: (req: Request, res: Response) => SyncOrAsync<Value>,
  req: Request,
  res: Response,
  user = 'rateLimit',
): SyncOrAsync<Value> {
  const fail = (error: unknown): never => failure(error, user)
  try {
    const answer = question(req, res)
    // Fastify's reply has a `then` that needs both its functions and returns nothing.
    return isPromise(answer) ? Promise.resolve(answer).then(undefined, fail) : answer
  } catch (error) {
    return fail(error)
  }
}

function failure(error: unknown, user: string): never {
  if (typeof error === 'object' && error !== null) throw error
  throw new SpillwayError(`${user}: a function of the options threw ${shown(error)}: expected an Error`, {
    cause: error,
  })
}
