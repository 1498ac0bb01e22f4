import { notify, type Observer, parseObserver } from '../limiter/core/observer.js'
import { checkFunction, checkInteger, checkOptions, type OptionNames } from '../limiter/core/options.js'
import { CLIENT_OPTIONS, Client, type ClientOptions, parseClientOptions } from './address/client.js'
import { type Answer, type Framework, type Gate, PASS, plainReply } from './framework.js'
import { CALM_LEVEL, checkLoad, FULL_LEVEL, type LoadLevel } from './load.js'
import { checkIsCalled } from './misuse.js'
import { NEWCOMERS } from './newcomers.js'
import { refuseAtOnce } from './refusal.js'

/** Options of `shed`. An address that `allow` holds is never refused. */
export interface ShedOptions<Req> extends ClientOptions {
  /** The measured load: above 1, one more level is closed each second; below 0.7, one is opened. */
  load: LoadLevel
  /**
   * From 0, which is never refused, to `levels` − 1, which is refused first. Rounded down and clamped; a value that is
   * not a number counts as the last.
   */
  priority: (req: Req) => number
  /** The number of priorities; integer ≥ 2; default 4. */
  levels?: number
  /**
   * Default: none. Receives each request as `waited` (object 'concurrency', name 'shed'): 'granted', or 'timeout' for a
   * refusal.
   */
  observer?: Observer
}

const OPTIONS: OptionNames<ShedOptions<never>> = {
  load: true,
  priority: true,
  levels: true,
  observer: true,
  ...CLIENT_OPTIONS,
}
const STEP_MS = 1000

/** Refuses the least important requests first under overload. */
export class ShedGate<Request, Response> implements Gate<Request, Response> {
  readonly #options: ShedOptions<Request>
  readonly #framework: Framework<Request, Response, readonly unknown[]>
  readonly #client: Client<Request, Response>
  readonly #levels: number
  readonly #observer: Observer | undefined
  readonly #now: () => number
  /** The number of open levels: lower priorities are admitted. */
  #open: number
  #changedAt = Number.NEGATIVE_INFINITY

  /** Checks the options: `PolicyError`. `now`: a monotonic clock in ms. */
  constructor(
    options: ShedOptions<Request>,
    framework: Framework<Request, Response, readonly unknown[]>,
    now: () => number = () => performance.now(),
  ) {
    checkIsCalled('shed', options)
    const example = '{ load: processLoad(), priority: req => (req.path === "/health" ? 0 : 1) }'
    checkOptions('shed', options, OPTIONS, example, NEWCOMERS)
    const { load, priority, levels = 4, observer } = options
    checkLoad(load, 'shed')
    checkFunction(priority, 'shed: priority', 'req => (req.user ? 0 : 3)')
    checkInteger(levels, 'shed: levels', 4, 2)
    this.#options = options
    this.#framework = framework
    this.#client = new Client(framework, parseClientOptions('shed', options))
    this.#levels = levels
    this.#observer = parseObserver(observer, 'shed')
    this.#now = now
    this.#open = levels
  }

  /** Throws if `priority` does. */
  answer(req: Request, res: Response): Answer {
    const met = this.#client.meet(req, res)
    if (typeof met === 'object') return met
    this.#look()
    const priority = this.#priorityOf(req)
    const refused = priority >= this.#open
    const outcome = refused ? 'timeout' : 'granted'
    notify(this.#observer, 'waited', { object: 'concurrency', name: 'shed', waitMs: 0, outcome })
    return refused ? this.#refuse(req, priority) : PASS
  }

  #look(): void {
    const now = this.#now()
    if (now - this.#changedAt < STEP_MS) return
    const { level } = this.#options.load
    if (level > FULL_LEVEL && this.#open > 1) this.#open--
    else if (level < CALM_LEVEL && this.#open < this.#levels) this.#open++
    else return
    this.#changedAt = now
  }

  #priorityOf(req: Request): number {
    const given: unknown = this.#options.priority(req)
    const last = this.#levels - 1
    if (typeof given !== 'number' || Number.isNaN(given)) return last
    return Math.min(last, Math.max(0, Math.floor(given)))
  }

  #refuse(req: Request, priority: number): Answer {
    const accept = this.#framework.requestHeader(req, 'accept')
    // At most one level opens per second.
    const retryAfterMs = (priority - this.#open + 1) * STEP_MS
    const refusal = refuseAtOnce({ name: 'shed', status: 503, retryAfterMs, wholeService: true }, accept)
    return { ...PASS, fields: refusal.fields, refusal: plainReply(refusal) }
  }
}
