import { Deadline } from '../../core/deadline.js'
import type { Decision } from '../../core/decision.js'
import { type Duration, parseOption } from '../../core/duration.js'
import { PolicyError, shown } from '../../core/errors.js'
import type { Refusal } from '../refusal.js'
import type { SyncOrAsync } from '../sync-or-async.js'

/** What a refused request is put into: a `DelayQueue`, or anything of its shape. */
export interface DeferQueue {
  /** The id, or null if the queue does not accept it. */
  push(payload: unknown, options: { delay: number }): Promise<string | null>
}

/** What is over the limit is done later rather than refused. */
export interface DeferOptions<Request, Response> {
  /** A `DelayQueue`, whose consumers then do the work. Full, failing or late: the request is refused after all. */
  queue: DeferQueue
  /** What the consumers need to know of the request. */
  message: (req: Request, res: Response) => unknown
  /** Where the client may ask how it went, by the id of the message. Default: none; the id is in the body, as JSON. */
  location?: (id: string, req: Request) => string
  /** How long the queue may take to accept it; default '1s'. Accepted later, a request is refused and done all the same. */
  timeout?: Duration
}

export function checkDeferOptions(defer: DeferOptions<never, never>): void {
  if (typeof defer !== 'object' || defer === null) throw mistake(`defer ${shown(defer)}`)
  for (const name of Object.keys(defer)) {
    if (!['queue', 'message', 'location', 'timeout'].includes(name))
      throw mistake(`defer: unknown option ${shown(name)}`)
  }
  const { queue, message, location, timeout } = defer
  if (typeof queue?.push !== 'function') throw mistake(`defer: queue ${shown(queue)}`)
  if (typeof message !== 'function') throw mistake(`defer: message ${shown(message)}`)
  if (location !== undefined && typeof location !== 'function') throw mistake(`defer: location ${shown(location)}`)
  if (timeout !== undefined) parseOption(timeout, 'rateLimit: defer: timeout')
}

function mistake(what: string): PolicyError {
  return new PolicyError(
    `rateLimit: ${what}: expected { queue, message }, and perhaps location and timeout, like ` +
      '{ queue: new DelayQueue(client, "webhooks"), message: req => req.body }',
  )
}

/** Puts refused requests into a queue. */
export class Deferral<Request, Response> {
  readonly #options: DeferOptions<Request, Response>
  readonly #deadline: Deadline

  constructor(options: DeferOptions<Request, Response>) {
    this.#options = options
    this.#deadline = new Deadline(parseOption(options.timeout ?? '1s', 'rateLimit: defer: timeout'))
  }

  /** Whether a denied request may be done later: not if that would never be, nor if its key is blocked or nobody has counted. */
  accepts({ retryAfterMs, blocked, source }: Decision): boolean {
    return retryAfterMs < Number.POSITIVE_INFINITY && !blocked && source !== 'closed'
  }

  message(req: Request, res: Response): SyncOrAsync<unknown> {
    return this.#options.message(req, res)
  }

  /** 202 and where to ask; undefined if the queue did not accept it. Due when the request would have been allowed. */
  async answer(message: unknown, { retryAfterMs }: Decision, req: Request): Promise<Refusal | undefined> {
    const { queue, location } = this.#options
    // Called in a then, so that even a queue that throws at once only fails.
    const pushed = Promise.resolve().then(() => queue.push(message, { delay: retryAfterMs }))
    const id = await this.#deadline.hold(pushed).catch(() => null)
    if (id === null) return undefined
    const fields = { 'Cache-Control': 'no-store', 'Content-Type': 'application/json; charset=utf-8' }
    const body = JSON.stringify({ id })
    return { status: 202, fields: location ? { ...fields, Location: location(id, req) } : fields, body }
  }
}
