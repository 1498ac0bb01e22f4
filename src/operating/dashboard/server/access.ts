import { isIP } from 'node:net'
import { shown } from '../../../limiter/core/errors.js'
import { emitWarning } from '../../../limiter/core/warnings.js'
import type { AnyRequest, Asked } from './exchange.js'
import type { DashboardAccess } from './options.js'
import type { Viewer } from './page-views.js'

/** Why a request is refused. */
export interface Refused {
  readonly status: 401 | 403 | 421
  readonly reason: string
}

type Authorize = (request: AnyRequest) => DashboardAccess | Promise<DashboardAccess>

/** Most often so: every view of every open page may fail. */
const WARN_EVERY_MS = 60_000
const NO: Refused = { status: 403, reason: 'You may not see this dashboard.' }

/**
 * Tells who may see the dashboard. Refuses everything that is not certainly allowed, and warns of an `authorize` that
 * does not work.
 */
export class Doorkeeper {
  #quietUntil = Number.NEGATIVE_INFINITY

  constructor(
    readonly authorize: Authorize,
    readonly hosts: readonly string[],
  ) {}

  /** The user and their access. */
  async viewerOf(asked: Asked): Promise<Viewer | Refused> {
    const wrongHost = hostComplaint(asked, this.hosts)
    if (wrongHost !== undefined) return { status: 421, reason: wrongHost }
    let given: DashboardAccess
    try {
      given = await this.authorize(asked.request)
    } catch (error) {
      this.#warn(`threw: ${(error as Error)?.message ?? error}`)
      return NO
    }
    if (given === 'read' || given === 'write') return { access: given }
    if (typeof given === 'object' && given !== null && (given.access === 'read' || given.access === 'write')) {
      return { access: given.access, ...(typeof given.user === 'string' && { user: given.user.slice(0, 200) }) }
    }
    if (given) this.#warn(`gave ${shown(given)}: expected 'read', 'write', { access: 'write', user: 'ann' } or false`)
    return NO
  }

  /** To whoever asks it is only a 403, which would not tell the service's authors of their mistake. */
  #warn(what: string): void {
    const now = performance.now()
    if (now < this.#quietUntil) return
    this.#quietUntil = now + WARN_EVERY_MS
    emitWarning('SPILLWAY_DASHBOARD', `dashboard: authorize ${what}. The request was refused with 403.`)
  }
}

export function isRefused(viewer: Viewer | Refused): viewer is Refused {
  return 'status' in viewer
}

/**
 * Why a question or a change may not come from the dashboard's own page; undefined if it does. Its field
 * `x-spillway-request` alone keeps other sites out, because browsers send it to another origin only if that allows it;
 * a service may allow it to everybody by mistake.
 */
export function forgeryComplaint(asked: Asked): string | undefined {
  const complaint = 'This must come from the page of this dashboard.'
  const site = asked.header('sec-fetch-site')
  if (site !== undefined) return site === 'same-origin' ? undefined : complaint
  const origin = asked.header('origin')
  if (origin === undefined) return undefined
  const own = [asked.header('host'), asked.header('x-forwarded-host')?.split(',')[0].trim()]
  const named = hostIn(origin)
  return named !== undefined && own.includes(named) ? undefined : complaint
}

/**
 * Against DNS rebinding: a page of another site could use a name of that site that points to this server. Addresses and
 * localhost are always this server's; other names only if `hosts` has them.
 */
function hostComplaint(asked: Asked, hosts: readonly string[]): string | undefined {
  const name = nameIn(asked.header('host'))
  if (name === undefined) return 'The request names no host.'
  const isOwn = isIP(name) > 0 || name === 'localhost' || name.endsWith('.localhost')
  if (isOwn || hosts.includes(name)) return undefined
  return `The dashboard is not known as ${name}. If that is its name, give dashboard() the option hosts: ['${name}'].`
}

/** The name or address in a Host field, without brackets and port. */
function nameIn(host: string | undefined): string | undefined {
  const [, six, name] = /^(?:\[([0-9a-f:.]+)\]|([\w.-]+))(?::\d{1,5})?$/i.exec(host ?? '') ?? []
  return (six ?? name)?.toLowerCase().replace(/\.$/, '')
}

function hostIn(origin: string): string | undefined {
  try {
    return new URL(origin).host
  } catch {
    return undefined
  }
}
