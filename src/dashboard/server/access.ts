import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import type { DashboardAccess } from './options.js'
import type { Viewer } from './page-views.js'

/** Why a request is refused. */
export interface Refused {
  readonly status: 401 | 403 | 421
  readonly reason: string
}

type Authorize = (req: IncomingMessage) => DashboardAccess | Promise<DashboardAccess>

/** The user and their access; refuses everything that is not certainly allowed. */
export async function viewerOf(
  req: IncomingMessage,
  authorize: Authorize,
  hosts: readonly string[],
): Promise<Viewer | Refused> {
  const wrongHost = hostComplaint(req, hosts)
  if (wrongHost !== undefined) return { status: 421, reason: wrongHost }
  let given: DashboardAccess
  try {
    given = await authorize(req)
  } catch {
    return { status: 403, reason: 'You may not see this dashboard.' }
  }
  if (given === 'read' || given === 'write') return { access: given }
  if (typeof given === 'object' && given !== null && (given.access === 'read' || given.access === 'write')) {
    return { access: given.access, ...(typeof given.user === 'string' && { user: given.user.slice(0, 200) }) }
  }
  return { status: 403, reason: 'You may not see this dashboard.' }
}

export function isRefused(viewer: Viewer | Refused): viewer is Refused {
  return 'status' in viewer
}

/**
 * Why a question or a change may not come from the dashboard's own page; undefined if it does. Its field `x-spillway-request` alone keeps other
 * sites out, because browsers send it to another origin only if that allows it; a service may allow it to everybody by mistake.
 */
export function forgeryComplaint({ headers }: IncomingMessage): string | undefined {
  const complaint = 'This must come from the page of this dashboard.'
  const site = headers['sec-fetch-site']
  if (site !== undefined) return site === 'same-origin' ? undefined : complaint
  const { origin, host } = headers
  if (origin === undefined) return undefined
  const forwarded = headers['x-forwarded-host']
  const own = [host, typeof forwarded === 'string' ? forwarded.split(',')[0].trim() : undefined]
  const named = hostIn(origin)
  return named !== undefined && own.includes(named) ? undefined : complaint
}

/**
 * Against DNS rebinding: a page of another site could use a name of that site that points to this server. Addresses and localhost are always
 * this server's; other names only if `hosts` has them.
 */
function hostComplaint({ headers }: IncomingMessage, hosts: readonly string[]): string | undefined {
  const name = nameIn(headers.host)
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
