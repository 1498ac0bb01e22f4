import type { ServerResponse } from 'node:http'
import type { Http2ServerResponse } from 'node:http2'
import { type Reply, send } from './reply.js'
import type { SyncOrAsync } from './sync-or-async.js'

/** Sends a reply on a response of Node, unless something else has answered. If its words fail, the response is as it was before. */
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
    // Express answers an error with the status of the response, if that is one of an error.
    () => {
      if (res.headersSent) return
      res.statusCode = statusCode
      res.removeHeader('Retry-After')
    },
  )
}
