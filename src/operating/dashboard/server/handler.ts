import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { gzip, gzipSync } from 'node:zlib'
import { PolicyError, SpillwayError } from '../../../limiter/core/errors.js'
import { emitWarning } from '../../../limiter/core/warnings.js'
import { pageFiles } from '../page-files.js'
import { listOf, objectOf, oneOf, text, whole } from '../shapes.js'
import type { Failure, ViewRequest } from '../view.js'
import { Doorkeeper, forgeryComplaint, isRefused } from './access.js'
import { carryOut } from './actions.js'
import { DashboardState } from './dashboard-state.js'
import { rangeIn } from './history.js'
import type { LimitWriter } from './live-limits.js'
import { type DashboardOptions, parseDashboardOptions } from './options.js'
import { viewOf } from './page-views.js'
import { Unwanted } from './redis-calls.js'

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

/** (req, res, next?) for Express and `node:http`; for Koa by `ctx.req` and `ctx.res`. */
export type DashboardHandler = (req: IncomingMessage, res: ServerResponse, next?: (error?: unknown) => void) => void

const OPEN = listOf(text)
const MOST_OPEN = 20
/** What is none of the page's questions is left out. */
const VIEW_REQUEST = objectOf<Pick<ViewRequest, 'page'>, Required<Omit<ViewRequest, 'page'>>>(
  { page: oneOf('limits', 'keys', 'waiting', 'queues', 'changes', 'processes') },
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
type Fields = Readonly<Record<string, string | number>>
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
export function dashboard(options: DashboardOptions): DashboardHandler {
  return handlerOf(options, options?.live)
}

/** As `dashboard`; `limitWriter`: what changes limits. */
export function handlerOf(options: DashboardOptions, limitWriter: LimitWriter): DashboardHandler {
  const { client, prefix, authorize, keys, basePath, hosts } = parseDashboardOptions(options)
  const state = new DashboardState(client, prefix, keys, limitWriter)
  const doorkeeper = new Doorkeeper(authorize, hosts)

  async function answer(req: IncomingMessage, res: ServerResponse, route: Route): Promise<void> {
    const viewer = await doorkeeper.viewerOf(req)
    if (isRefused(viewer)) return sendText(res, viewer.status, viewer.reason)
    if (route === 'slash') return redirect(req, res)
    if (typeof route === 'object') return sendFile(req, res, pageFile(route.file) as PageFile)
    const complaint = forgeryComplaint(req)
    if (complaint !== undefined) return sendFailure(req, res, 403, complaint)
    if (route === 'view') return sendJson(req, res, 200, await viewOf(state, askIn(req), viewer, () => !res.destroyed))
    if (viewer.access !== 'write') return sendFailure(req, res, 403, 'You may look, but not change anything.')
    return sendJson(req, res, 200, await carryOut(state, requestIn(req), viewer.user))
  }

  function fail(req: IncomingMessage, res: ServerResponse, error: unknown): void {
    if (error instanceof Unwanted) res.destroy()
    else if (error instanceof PolicyError) sendFailure(req, res, 400, error.message)
    else if (error instanceof SpillwayError) sendFailure(req, res, 503, error.message)
    else {
      // A fault of the dashboard, or an unusual failure of the client: the page shows it, and the service gets a
      // warning.
      emitWarning('SPILLWAY_DASHBOARD', `dashboard: ${(error as Error)?.message ?? error}`)
      sendFailure(req, res, 500, 'The dashboard failed: see the warnings of the service.')
    }
  }

  return (req, res, next) => {
    const route = routeOf(req, basePath, next !== undefined)
    if (route === undefined) {
      if (next !== undefined) next()
      else sendText(res, 404, 'Not found.')
      return
    }
    answer(req, res, route)
      .catch((error: unknown) => fail(req, res, error))
      // Whatever happens to a view, the service goes on.
      .catch(() => res.destroy())
  }
}

/**
 * Determined by the end of the path, so that any base path works; with `basePath` only below it. As a middleware only
 * directly below where it is mounted: other paths that end with the same word are those of the service. Undefined for
 * other paths.
 */
function routeOf(req: IncomingMessage, basePath: string | undefined, canPass: boolean): Route | undefined {
  const [path] = (req.url ?? '/').split('?')
  if (basePath !== undefined && fullPath(req) !== basePath && !fullPath(req).startsWith(`${basePath}/`))
    return undefined
  if (basePath === undefined && canPass && path.lastIndexOf('/') > 0) return undefined
  const name = path.slice(path.lastIndexOf('/') + 1)
  const isGet = req.method === 'GET' || req.method === 'HEAD'
  if (name === 'view' && isGet) return 'view'
  if (name === 'act' && req.method === 'POST') return 'act'
  if (!isGet) return undefined
  if (name === '' && !fullPath(req).endsWith('/')) return 'slash'
  if (pageFile(name) !== undefined) return { file: name }
  const isMount = basePath === undefined ? !canPass && !name.includes('.') : fullPath(req) === basePath
  return isMount ? 'slash' : undefined
}

/** The path in the browser: Express removes the mount path. */
function fullPath(req: IncomingMessage): string {
  const { originalUrl = req.url ?? '/' } = req as IncomingMessage & { originalUrl?: string }
  return originalUrl.split('?')[0]
}

/** Relative, because a proxy may have removed parts of the path; never to another host. */
function redirect(req: IncomingMessage, res: ServerResponse): void {
  const path = fullPath(req)
  const [, query = ''] = /(\?.*)$/.exec(req.url ?? '') ?? []
  const name = path.slice(path.lastIndexOf('/') + 1)
  reply(res, 302, { location: `./${name}/${query}` })
}

/**
 * The request in a header field: the service's own middleware may have read the body, and addresses are written into
 * logs.
 */
function requestIn(req: IncomingMessage): object {
  const field = req.headers['x-spillway-request']
  if (typeof field !== 'string')
    throw new PolicyError('the request lacks the field x-spillway-request: it comes from the page')
  let request: unknown
  try {
    request = JSON.parse(Buffer.from(field, 'base64url').toString('utf8'))
  } catch {}
  if (typeof request === 'object' && request !== null) return request
  throw new PolicyError('the field x-spillway-request: expected a JSON object as base64url')
}

function askIn(req: IncomingMessage): ViewRequest {
  const ask = VIEW_REQUEST(requestIn(req))
  if (ask === undefined) throw new PolicyError('page: expected one of the pages, like "limits"')
  return ask
}

function sendFile(req: IncomingMessage, res: ServerResponse, { type, body, gzipped, etag }: PageFile): void {
  const fields = { 'content-type': type, 'cache-control': 'private, no-cache', etag, vary: 'accept-encoding' }
  if (req.headers['if-none-match'] === etag) reply(res, 304, fields)
  else if (takesGzip(req)) sendBody(req, res, 200, { ...fields, 'content-encoding': 'gzip' }, gzipped)
  else sendBody(req, res, 200, fields, body)
}

function sendFailure(req: IncomingMessage, res: ServerResponse, status: number, error: string): void {
  const failure: Failure = { error }
  sendJson(req, res, status, failure)
}

function sendJson(req: IncomingMessage, res: ServerResponse, status: number, value: object): void {
  const body = Buffer.from(JSON.stringify(value))
  const fields = { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' }
  if (body.length < SMALL || !takesGzip(req)) {
    sendBody(req, res, status, fields, body)
    return
  }
  gzip(body, { level: 5 }, (error, zipped) => {
    if (error === null) sendBody(req, res, status, { ...fields, 'content-encoding': 'gzip' }, zipped)
    else sendBody(req, res, status, fields, body)
  })
}

function sendText(res: ServerResponse, status: number, text: string): void {
  reply(res, status, { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' }, `${text}\n`)
}

function sendBody(req: IncomingMessage, res: ServerResponse, status: number, fields: Fields, body: Buffer): void {
  reply(res, status, { ...fields, 'content-length': body.length }, req.method === 'HEAD' ? undefined : body)
}

/**
 * All answers leave here. Somebody else may have answered meanwhile, like a middleware with a time-out: then nothing is
 * written.
 */
function reply(res: ServerResponse, status: number, fields: Fields, body?: Buffer | string): void {
  if (res.headersSent || res.writableEnded || res.destroyed) return
  res.statusCode = status
  for (const [name, value] of Object.entries({ ...FIELDS, ...fields })) res.setHeader(name, value)
  res.end(body)
}

function takesGzip(req: IncomingMessage): boolean {
  return /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?(?:,|$))/.test(String(req.headers['accept-encoding'] ?? ''))
}
