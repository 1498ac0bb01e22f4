import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { promisify } from 'node:util'
import { gzip, gzipSync } from 'node:zlib'
import { PolicyError, SpillwayError } from '../../../limiter/core/errors.js'
import { emitWarning } from '../../../limiter/core/warnings.js'
import { pageFiles } from '../page-files.js'
import { listOf, objectOf, oneOf, text, whole } from '../shapes.js'
import type { Failure, ViewRequest } from '../view.js'
import { Doorkeeper, forgeryComplaint, isRefused } from './access.js'
import { carryOut } from './actions.js'
import { DashboardState } from './dashboard-state.js'
import {
  type AnyRequest,
  type Asked,
  type Fields,
  fetchAsked,
  NO_REPLY,
  nodeAsked,
  type Reply,
  responseOf,
  writeReply,
} from './exchange.js'
import { rangeIn } from './history.js'
import type { LimitWriter } from './live-limits.js'
import { type DashboardOptions, parseDashboardOptions } from './options.js'
import { viewOf } from './page-views.js'
import { ViewerGone } from './redis-calls.js'

/** A file of the page. */
interface PageFile {
  readonly type: string
  readonly body: Buffer
  readonly gzipped: Buffer
  readonly etag: string
}

const ICON =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="#4d7ff0" stroke-width="2.4" ' +
  'stroke-linecap="round"><path d="M2 6h6c3 0 4 2 5 5s2 7 5 7h4"/><path d="M2 12h3c3 0 4 2 5 4s2 2 3 2" ' +
  'opacity=".55"/></svg>'

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>spillway</title>
<link rel="icon" href="icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="page.css">
<script src="page.js" defer></script>
</head>
<body><div id="app"></div><noscript>This page needs JavaScript.</noscript></body>
</html>
`

const FILES: Readonly<Record<string, () => PageFile>> = {
  '': once('text/html; charset=utf-8', () => PAGE),
  'page.js': once('text/javascript; charset=utf-8', () => pageFiles().dashboard.script),
  'page.css': once('text/css; charset=utf-8', () => pageFiles().dashboard.style),
  'icon.svg': once('image/svg+xml', () => ICON),
}

/** The file of this name, '' for the page; undefined if there is none. */
function pageFile(name: string): PageFile | undefined {
  return Object.hasOwn(FILES, name) ? FILES[name]() : undefined
}

function once(type: string, text: () => string): () => PageFile {
  let file: PageFile | undefined
  return () => {
    if (file === undefined) {
      const body = Buffer.from(text())
      const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 20)}"`
      file = { type, body, gzipped: gzipSync(body, { level: 9 }), etag }
    }
    return file
  }
}

/** What a request wants: a file, a view, a change, or the address with a slash at its end. */
type Route = { readonly file: string } | 'view' | 'act' | 'slash'

/**
 * (req, res, next?) for Express and `node:http`, and by their raw requests for Koa and Fastify; (request) for what
 * answers a `Request` with a `Response`: Hono, h3, Bun, Deno. That answers 404 to other paths.
 */
export interface DashboardHandler {
  (req: IncomingMessage, res: ServerResponse, next?: (error?: unknown) => void): void
  (request: Request): Promise<Response>
}

const OPEN = listOf(text)
const MOST_OPEN = 20
/** What is none of the page's questions is left out. */
const VIEW_REQUEST = objectOf<Pick<ViewRequest, 'page'>, Required<Omit<ViewRequest, 'page'>>>(
  { page: oneOf('limits', 'keys', 'waiting', 'queues', 'events', 'changes', 'processes') },
  {
    open: given => (Array.isArray(given) ? OPEN(given)?.slice(0, MOST_OPEN) : undefined),
    rows: whole,
    range: rangeIn,
    text,
    queue: text,
    id: text,
    service: text,
    key: text,
    ref: text,
  },
)
const SMALL = 1000
const FIELDS: Fields = {
  'content-security-policy': "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
}

/**
 * The dashboard: one page and its requests. Nothing is read from Redis while no browser asks. Throws `PolicyError` for
 * invalid options, and without `authorize`.
 */
export function dashboard<Req extends IncomingMessage | Request = IncomingMessage>(
  options: DashboardOptions<Req>,
): DashboardHandler {
  return handlerOf(options, options?.live)
}

/** As `dashboard`; `limitWriter`: what changes limits. */
export function handlerOf<Req extends AnyRequest>(
  options: DashboardOptions<Req>,
  limitWriter: LimitWriter,
): DashboardHandler {
  const { client, prefix, authorize, keys, basePath, hosts } = parseDashboardOptions(options)
  const state = new DashboardState(client, prefix, keys, limitWriter)
  const doorkeeper = new Doorkeeper(request => authorize(request as Req), hosts)

  async function answer(asked: Asked, route: Route): Promise<Reply> {
    try {
      const viewer = await doorkeeper.viewerOf(asked)
      if (isRefused(viewer)) return textReply(viewer.status, viewer.reason)
      if (route === 'slash') return redirect(asked)
      if (typeof route === 'object') return fileReply(asked, pageFile(route.file) as PageFile)
      const complaint = forgeryComplaint(asked)
      if (complaint !== undefined) return await failure(asked, 403, complaint)
      if (route === 'view')
        return await jsonReply(asked, 200, await viewOf(state, askIn(asked), viewer, () => !asked.isGone()))
      if (viewer.access !== 'write') return await failure(asked, 403, 'You may look, but not change anything.')
      return await jsonReply(asked, 200, await carryOut(state, requestIn(asked), viewer.user))
    } catch (error) {
      return failureOf(asked, error)
    }
  }

  function handle(req: IncomingMessage, res: ServerResponse, next?: (error?: unknown) => void): void
  function handle(request: Request): Promise<Response>
  function handle(
    ...given: [IncomingMessage, ServerResponse, ((error?: unknown) => void)?] | [Request]
  ): void | Promise<Response> {
    if (given.length === 1 || given[1] === undefined) return respond(given[0] as Request)
    const [req, res, next] = given
    const asked = nodeAsked(req, res)
    const route = routeOf(asked, basePath, next !== undefined)
    if (route === undefined && next !== undefined) next()
    else if (route === undefined) writeReply(res, textReply(404, 'Not found.'))
    else {
      answer(asked, route)
        .then(reply => writeReply(res, reply))
        // Whatever happens to a view, the service goes on.
        .catch(() => res.destroy())
    }
  }

  async function respond(request: Request): Promise<Response> {
    const asked = fetchAsked(request)
    const route = routeOf(asked, basePath, false)
    return responseOf(route === undefined ? textReply(404, 'Not found.') : await answer(asked, route))
  }

  return handle
}

function failureOf(asked: Asked, error: unknown): Reply | Promise<Reply> {
  if (error instanceof ViewerGone) return NO_REPLY
  if (error instanceof PolicyError) return failure(asked, 400, error.message)
  if (error instanceof SpillwayError) return failure(asked, 503, error.message)
  // A fault of the dashboard, or an unusual failure of the client: the page shows it, and the service gets a warning.
  emitWarning('SPILLWAY_DASHBOARD', `dashboard: ${(error as Error)?.message ?? error}`)
  return failure(asked, 500, 'The dashboard failed: see the warnings of the service.')
}

/**
 * Determined by the end of the path, so that any base path works; with `basePath` only below it. As a middleware only
 * directly below where it is mounted: other paths that end with the same word are those of the service. Undefined for
 * other paths.
 */
function routeOf({ url, fullPath, method }: Asked, basePath: string | undefined, canPass: boolean): Route | undefined {
  const [path] = url.split('?')
  if (basePath !== undefined && fullPath !== basePath && !fullPath.startsWith(`${basePath}/`)) return undefined
  if (basePath === undefined && canPass && path.lastIndexOf('/') > 0) return undefined
  const name = path.slice(path.lastIndexOf('/') + 1)
  const isGet = method === 'GET' || method === 'HEAD'
  if (name === 'view' && isGet) return 'view'
  if (name === 'act' && method === 'POST') return 'act'
  if (!isGet) return undefined
  if (name === '' && !fullPath.endsWith('/')) return 'slash'
  if (pageFile(name) !== undefined) return { file: name }
  const isMount = basePath === undefined ? !canPass && !name.includes('.') : fullPath === basePath
  return isMount ? 'slash' : undefined
}

/** Relative, because a proxy may have removed parts of the path; never to another host. */
function redirect({ url, fullPath }: Asked): Reply {
  const [, query = ''] = /(\?.*)$/.exec(url) ?? []
  const name = fullPath.slice(fullPath.lastIndexOf('/') + 1)
  return reply(302, { location: `./${name}/${query}` })
}

/**
 * The request in a header field: the service's own middleware may have read the body, and addresses are written into
 * logs.
 */
function requestIn(asked: Asked): object {
  const field = asked.header('x-spillway-request')
  if (field === undefined)
    throw new PolicyError('the request lacks the field x-spillway-request: it comes from the page')
  let request: unknown
  try {
    request = JSON.parse(Buffer.from(field, 'base64url').toString('utf8'))
  } catch {}
  if (typeof request === 'object' && request !== null) return request
  throw new PolicyError('the field x-spillway-request: expected a JSON object as base64url')
}

function askIn(asked: Asked): ViewRequest {
  const ask = VIEW_REQUEST(requestIn(asked))
  if (ask === undefined) throw new PolicyError('page: expected one of the pages, like "limits"')
  return ask
}

function fileReply(asked: Asked, { type, body, gzipped, etag }: PageFile): Reply {
  const fields = { 'content-type': type, 'cache-control': 'private, no-cache', etag, vary: 'accept-encoding' }
  if (asked.header('if-none-match') === etag) return reply(304, fields)
  if (takesGzip(asked)) return bodyReply(asked, 200, { ...fields, 'content-encoding': 'gzip' }, gzipped)
  return bodyReply(asked, 200, fields, body)
}

function failure(asked: Asked, status: number, error: string): Promise<Reply> {
  const value: Failure = { error }
  return jsonReply(asked, status, value)
}

const zip = promisify(gzip)

async function jsonReply(asked: Asked, status: number, value: object): Promise<Reply> {
  const body = Buffer.from(JSON.stringify(value))
  const fields = { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' }
  const zipped =
    body.length < SMALL || !takesGzip(asked) ? undefined : await zip(body, { level: 5 }).catch(() => undefined)
  return zipped === undefined
    ? bodyReply(asked, status, fields, body)
    : bodyReply(asked, status, { ...fields, 'content-encoding': 'gzip' }, zipped)
}

function textReply(status: number, text: string): Reply {
  return reply(status, { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' }, `${text}\n`)
}

function bodyReply({ method }: Asked, status: number, fields: Fields, body: Buffer): Reply {
  return reply(status, { ...fields, 'content-length': body.length }, method === 'HEAD' ? undefined : body)
}

/** All answers are made here. */
function reply(status: number, fields: Fields, body?: Buffer | string): Reply {
  return { status, fields: { ...FIELDS, ...fields }, ...(body !== undefined && { body }) }
}

function takesGzip(asked: Asked): boolean {
  return /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?(?:,|$))/.test(asked.header('accept-encoding') ?? '')
}
