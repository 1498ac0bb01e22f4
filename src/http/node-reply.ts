import type { ServerResponse } from 'node:http'
import type { Http2ServerResponse } from 'node:http2'
import { type Reply, send } from './reply.js'
import type { SyncOrAsync } from './sync-or-async.js'

/** Sends a reply on a Node response, unless it was answered already. If the body function fails, the response is restored. */
export function sendOnNode(reply: Reply, res: ServerResponse | Http2ServerResponse): SyncOrAsync<void> {
  const { statusCode } = res
  res.statusCode = reply.status
  return send(
    reply,
    ({ type, text }) => {
      if (res.headersSent) return
      res.setHeader('Content-Type', type)
      res.end(text)
    },
    // Express answers an error with the status of the response, if that is an error status.
    () => {
      if (res.headersSent) return
      res.statusCode = statusCode
      res.removeHeader('Retry-After')
    },
  )
}
