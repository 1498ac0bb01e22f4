import type { IncomingMessage } from 'node:http'
import type { Http2ServerRequest } from 'node:http2'
import type { Delivery } from './framework.js'
import type { Fields } from './headers.js'
import type { NodeResponse } from './node-response.js'

type NodeRequest = IncomingMessage | Http2ServerRequest

/** Sets header fields on Node's own response. */
export function setNodeFields(res: NodeResponse, fields: Fields): void {
  for (const name in fields) res.setHeader(name, fields[name])
}

/** How an answer is written on Node's own response. */
export const toNodeResponse: Omit<Delivery<NodeRequest, NodeResponse>, 'leaveDecision'> = {
  isSent: res => res.headersSent,
  setFields: setNodeFields,
  removeField: (res, name) => res.removeHeader(name),
  status: res => res.statusCode,
  setStatus(res, status) {
    res.statusCode = status
  },
  write(res, { type, text }) {
    res.setHeader('Content-Type', type)
    res.end(text)
  },
}
