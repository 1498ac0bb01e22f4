import { randomBytes, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { isIP } from 'node:net'
import type { DashboardAccess } from './options.js'
import type { Viewer } from './page-views.js'

/** A change must repeat its value in the field x-spillway-token: another site can send neither. */
const COOKIE = 'spillway_dashboard'
const TOKEN = /^[\w-]{32}$/

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
  hosts: readonly string[] | undefined,
): Promise<Viewer | Refused> {
  const wrongHost = hostComplaint(req, hosts)
  if (wrongHost !== undefined) return { status: 421, reason: wrongHost }
  let given: DashboardAccess
  try {
    given = await authorize(req)
  } catch {
    return { status: 403, reason: 'You may not see this dashboard.' }
  }
  const token = cookieOf(req) ?? randomBytes(24).toString('base64url')
  if (given === 'read' || given === 'write') return { access: given, token }
  if (typeof given === 'object' && given !== null && (given.access === 'read' || given.access === 'write')) {
    return { access: given.access, token, ...(typeof given.user === 'string' && { user: given.user.slice(0, 200) }) }
  }
  return { status: 403, reason: 'You may not see this dashboard.' }
}

export function isRefused(viewer: Viewer | Refused): viewer is Refused {
  return 'status' in viewer
}

/** Whether the browser has no token yet. */
export function lacksToken(req: IncomingMessage): boolean {
  return cookieOf(req) === undefined
}

/** Stores the token in the browser, for the path of the dashboard and for requests from its own pages only. */
export function leaveToken(req: IncomingMessage, res: ServerResponse, token: string, path: string): void {
  const secure = 'encrypted' in req.socket && req.socket.encrypted === true ? '; Secure' : ''
  res.appendHeader('set-cookie', `${COOKIE}=${token}; Path=${path}; HttpOnly; SameSite=Strict${secure}`)
}

/** Why a change may not come from the dashboard's own page; undefined if it does. */
export function forgeryComplaint(req: IncomingMessage): string | undefined {
  const cookie = cookieOf(req)
  const field = req.headers['x-spillway-token']
  if (cookie === undefined || typeof field !== 'string' || !isSame(cookie, field)) {
    return 'A change must come from the page of this dashboard: load it again.'
  }
  const { origin, host } = req.headers
  const site = req.headers['sec-fetch-site']
  if (site !== undefined && site !== 'same-origin') return 'A change must come from the page of this dashboard.'
  if (origin === undefined) return undefined
  const forwarded = req.headers['x-forwarded-host']
  const own = [host, typeof forwarded === 'string' ? forwarded.split(',')[0].trim() : undefined]
  const named = hostIn(origin)
  return named !== undefined && own.includes(named) ? undefined : 'A change must come from the page of this dashboard.'
}

/**
 * Against DNS rebinding: a page of another site could use a name of that site that points to this server. With `hosts` only those names are answered.
 * Without, requests from the server's own machine are answered only by address or as localhost: names on the internet are refused.
 */
function hostComplaint(req: IncomingMessage, hosts: readonly string[] | undefined): string | undefined {
  const { host } = req.headers
  const name = nameIn(host)
  if (name === undefined) return 'The request names no host.'
  const isOwn = isIP(name) > 0 || name === 'localhost' || name.endsWith('.localhost')
  if (hosts !== undefined) {
    if (hosts.includes(name) || (isOwn && isLoopback(req))) return undefined
    return `The host ${name} is not one of this dashboard's (option hosts).`
  }
  if (isOwn || !isLoopback(req)) return undefined
  return `The host ${name} is not this machine. If a proxy here asks under that name, give dashboard() the option hosts: ['${name}'].`
}

function isLoopback({ socket }: IncomingMessage): boolean {
  const { localAddress, remoteAddress } = socket
  return [localAddress, remoteAddress].every(address => /^(::ffff:)?127\.|^::1$/.test(address ?? ''))
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

function cookieOf(req: IncomingMessage): string | undefined {
  for (const part of (req.headers.cookie ?? '').split(';')) {
    const [name, value] = part.trim().split('=')
    if (name === COOKIE && value !== undefined && TOKEN.test(value)) return value
  }
  return undefined
}

function isSame(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)]
  return left.length === right.length && timingSafeEqual(left, right)
}
