import type { IncomingMessage, ServerResponse } from 'node:http'

/** What a framework hands over: that of `node:http`, or that of fetch. */
export type AnyRequest = IncomingMessage | Request

/** A request, whichever framework it came through. */
export interface Asked {
  /** As `authorize` gets it. */
  readonly request: AnyRequest
  readonly method: string
  /** Path and query, as far as the framework passes them on. */
  readonly url: string
  /** The path in the browser: Express removes the mount path. */
  readonly fullPath: string
  header(name: string): string | undefined
  /** Whether nobody waits for the answer any more. */
  isGone(): boolean
}

export type Fields = Readonly<Record<string, string | number>>

/** An answer; `status` 0: nothing is answered, the connection ends. */
export interface Reply {
  readonly status: number
  readonly fields: Fields
  readonly body?: Buffer | string
}

export const NO_REPLY: Reply = { status: 0, fields: {} }

export function nodeAsked(req: IncomingMessage, res: ServerResponse): Asked {
  const { originalUrl = req.url ?? '/' } = req as IncomingMessage & { originalUrl?: string }
  return {
    request: req,
    method: req.method ?? 'GET',
    url: req.url ?? '/',
    fullPath: originalUrl.split('?')[0],
    header: name => {
      const field = req.headers[name]
      return typeof field === 'string' ? field : undefined
    },
    isGone: () => res.destroyed,
  }
}

export function fetchAsked(request: Request): Asked {
  const { pathname, search, host } = new URL(request.url)
  return {
    request,
    method: request.method,
    url: `${pathname}${search}`,
    fullPath: pathname,
    // A server makes the address of this field; a request that was made by hand has none.
    header: name => request.headers.get(name) ?? (name === 'host' ? host : undefined),
    isGone: () => request.signal.aborted,
  }
}

/** Somebody else may have answered meanwhile, like a middleware with a time-out: then nothing is written. */
export function writeReply(res: ServerResponse, { status, fields, body }: Reply): void {
  if (res.headersSent || res.writableEnded || res.destroyed) return
  if (status === 0) {
    res.destroy()
    return
  }
  res.statusCode = status
  for (const [name, value] of Object.entries(fields)) res.setHeader(name, value)
  res.end(body)
}

export function responseOf({ status, fields, body }: Reply): Response {
  if (status === 0) return Response.error()
  const headers = Object.entries(fields).map(([name, value]): [string, string] => [name, String(value)])
  return new Response(typeof body === 'string' || body === undefined ? body : new Uint8Array(body), { status, headers })
}
