import { type Body, bodyOf, type Refusal } from './refusal.js'
import { ask } from './refuse-or-fail.js'
import { after, type SyncOrAsync } from './sync-or-async.js'

/** The answer that is sent instead of passing a request on. */
export interface Reply {
  readonly status: number
  /**
   * The body. Call it after the status and all fields are set and the decision is on the request; undefined if the service's
   * own handler has answered. Throws or rejects if a function of the options does.
   */
  body(): SyncOrAsync<Body | undefined>
}

/** A service's own refusal texts. Its functions receive `Facts` beside request and response. */
export interface Wording<Request, Response, Facts extends readonly unknown[]> {
  readonly handler: ((req: Request, res: Response, ...facts: Facts) => unknown) | undefined
  /** A body, or a function that returns one. */
  readonly message: unknown
}

/** The package's own reply for a refusal. */
export function plainReply({ status, body }: Refusal): Reply {
  return { status, body: () => body }
}

/** The service's own reply, if it has one. `user` names the middleware in errors. */
export function wordedReply<Request, Response, Facts extends readonly unknown[]>(
  refusal: Refusal,
  { handler, message }: Wording<Request, Response, Facts>,
  user: string,
  req: Request,
  res: Response,
  ...facts: Facts
): Reply {
  const { status } = refusal
  if (handler !== undefined) {
    const handle = () => handler(req, res, ...facts)
    return { status, body: () => after(ask(handle, req, res, user), () => undefined) }
  }
  if (typeof message === 'function') {
    const word = (): unknown => message(req, res, ...facts)
    const bodyFrom = (own: unknown) => (own === undefined ? refusal.body : bodyOf(own))
    return { status, body: () => after(ask(word, req, res, user), bodyFrom) }
  }
  return message === undefined ? plainReply(refusal) : { status, body: () => bodyOf(message) }
}
