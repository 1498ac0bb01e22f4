import { randomBytes, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'

/** Like the middleware of a server: answers what it refuses, and lets the rest pass. */
type Listener = (req: IncomingMessage, res: ServerResponse) => void

/**
 * Admits only the first browser that opens the printed address. The token behind its `#` never reaches a server's log; the page exchanges it for a
 * session that it keeps in the storage of its origin. A cookie would not do: browsers send it to every port of the machine, so also to servers
 * of other users.
 */
export class OneTimeLogin {
  readonly token = newSecret()
  #session: string | undefined

  /** Guards a dashboard: its page and files are for everybody, its data and changes for the session. */
  guard(dashboard: Listener): Listener {
    return (req, res) => {
      const { 'x-spillway-login': token, 'x-spillway-request': asked } = req.headers
      if (typeof token === 'string') this.#enter(token, res)
      else if (asked !== undefined && !this.#knows(req)) {
        const advice = 'Open the address that `spillway dashboard` has printed.'
        send(res, 401, `${advice} It works once: for another browser start the command again.`)
      } else dashboard(req, res)
    }
  }

  #enter(token: string, res: ServerResponse): void {
    if (this.#session !== undefined || !isSame(token, this.token)) {
      const reason = 'This address was used before, or is not the one that was printed.'
      send(res, 401, `${reason} Start \`spillway dashboard\` again.`)
    } else {
      this.#session = newSecret()
      send(res, 200, this.#session)
    }
  }

  #knows({ headers }: IncomingMessage): boolean {
    const session = headers['x-spillway-session']
    return typeof session === 'string' && this.#session !== undefined && isSame(session, this.#session)
  }
}

function send(res: ServerResponse, status: number, text: string): void {
  res.statusCode = status
  res.setHeader('content-type', 'text/plain; charset=utf-8')
  res.setHeader('cache-control', 'no-store')
  res.end(text)
}

function newSecret(): string {
  return randomBytes(24).toString('base64url')
}

function isSame(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)]
  return left.length === right.length && timingSafeEqual(left, right)
}
