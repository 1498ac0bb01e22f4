import { randomBytes, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'

const COOKIE = 'spillway_session'
const NAMES = new Set(['127.0.0.1', 'localhost'])

/** Admits only the first browser that opens the printed address: its token works once, and then becomes a cookie of that browser. */
export class OneTimeLogin {
  readonly token = newSecret()
  readonly #sessions = new Set<string>()
  #used = false

  /** True if this method has answered the request: it contained the token, or was refused. */
  answers(req: IncomingMessage, res: ServerResponse): boolean {
    res.setHeader('cache-control', 'no-store')
    res.setHeader('referrer-policy', 'no-referrer')
    if (!isOwnHost(req)) return refuse(res, 421, 'This dashboard is asked as 127.0.0.1 or localhost only.')
    const url = new URL(req.url ?? '/', 'http://127.0.0.1')
    const token = url.searchParams.get('token')
    if (token !== null) return this.#enter(token, req, res)
    if (this.#knows(req)) return false
    return refuse(
      res,
      401,
      'Open the address that `spillway dashboard` has printed. It works once: for another browser start the command again.',
    )
  }

  #enter(token: string, req: IncomingMessage, res: ServerResponse): boolean {
    if (!this.#knows(req)) {
      if (this.#used || !isSame(token, this.token)) {
        return refuse(
          res,
          401,
          'This address was used before, or is not the one that was printed. Start `spillway dashboard` again.',
        )
      }
      this.#used = true
      const session = newSecret()
      this.#sessions.add(session)
      res.appendHeader('set-cookie', `${COOKIE}=${session}; Path=/; HttpOnly; SameSite=Strict`)
    }
    // A page instead of a redirect, so that the token disappears from the address and the history: after a redirect from another site the browser would not send the cookie.
    res.statusCode = 200
    res.setHeader('content-type', 'text/html; charset=utf-8')
    res.setHeader('content-security-policy', "default-src 'none'")
    res.end(
      '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=/"><title>spillway</title><a href="/">Open the dashboard</a>\n',
    )
    return true
  }

  #knows(req: IncomingMessage): boolean {
    for (const part of (req.headers.cookie ?? '').split(';')) {
      const [name, value = ''] = part.trim().split('=')
      if (name === COOKIE && this.#sessions.has(value)) return true
    }
    return false
  }
}

/** Prevents DNS rebinding: a page of another site would use that site's name. */
function isOwnHost({ headers }: IncomingMessage): boolean {
  const [, name] = /^([\w.-]+)(?::\d+)?$/.exec(headers.host ?? '') ?? []
  return name !== undefined && NAMES.has(name.toLowerCase())
}

function refuse(res: ServerResponse, status: number, reason: string): true {
  res.statusCode = status
  res.setHeader('content-type', 'text/plain; charset=utf-8')
  res.end(`${reason}\n`)
  return true
}

function newSecret(): string {
  return randomBytes(24).toString('base64url')
}

function isSame(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)]
  return left.length === right.length && timingSafeEqual(left, right)
}
