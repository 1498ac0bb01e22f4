// A service of MCP tools: over HTTP for tests, and as a program over stdio.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { AuthInfo } from '@modelcontextprotocol/sdk/server/auth/types.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'

/** A server with the tool `search`, whose answer is how often it has run. */
export function searchServer(ran: () => number): McpServer {
  const server = new McpServer({ name: 'service', version: '1.0.0' })
  server.registerTool('search', {}, async () => ({ content: [{ type: 'text', text: `${ran()}` }] }))
  return server
}

/**
 * Serves over streamable HTTP as the SDK shows it: a server for each session, or, without sessions, for each request.
 * Who sends `Authorization: Bearer NAME` is the client NAME.
 */
export async function serveTools(make: () => McpServer, sessions: boolean) {
  const transports = new Map<string, StreamableHTTPServerTransport>()
  const open = async (): Promise<StreamableHTTPServerTransport> => {
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: sessions ? randomUUID : undefined,
      onsessioninitialized: id => void transports.set(id, transport),
    })
    await make().connect(transport)
    return transport
  }
  const answer = async (req: IncomingMessage & { auth?: AuthInfo }, res: ServerResponse) => {
    const token = req.headers.authorization?.replace('Bearer ', '')
    if (token !== undefined) req.auth = { token, clientId: token, scopes: [] }
    const known = transports.get(`${req.headers['mcp-session-id']}`)
    await (known ?? (await open())).handleRequest(req, res)
  }
  const server = createServer((req, res) => void answer(req, res)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const close = () => {
    server.closeAllConnections()
    server.close()
  }
  return { url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`), close }
}
