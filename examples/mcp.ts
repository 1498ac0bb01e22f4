// An MCP server over stdio whose tool may be called twice in any second, and an agent that waits as it is told.
//
//   node --import tsx examples/mcp.ts
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { McpError } from '@modelcontextprotocol/sdk/types.js'
import { limitTools } from 'spillway/mcp'

const RATE_LIMITED = -32023

async function serve(): Promise<void> {
  const server = new McpServer({ name: 'library', version: '1.0.0' })
  let searches = 0
  server.registerTool('search', {}, async () => ({ content: [{ type: 'text', text: `search ${++searches}` }] }))
  limitTools(server, { tools: { search: '2/1s' } })
  await server.connect(new StdioServerTransport())
}

async function ask(): Promise<void> {
  const client = new Client({ name: 'agent', version: '1.0.0' })
  const args = [...process.execArgv, fileURLToPath(import.meta.url), 'serve']
  await client.connect(new StdioClientTransport({ command: process.execPath, args }))
  for (let i = 0; i < 5; i++) console.log(await callTool(client, 'search'))
  await client.close()
}

/** Calls a tool, at the moment that the server names. */
async function callTool(client: Client, name: string): Promise<string> {
  for (;;) {
    try {
      const { content } = await client.callTool({ name })
      return (content as Array<{ text: string }>)[0].text
    } catch (error) {
      if (!(error instanceof McpError) || error.code !== RATE_LIMITED) throw error
      const { retryAfterMs } = error.data as { retryAfterMs: number | null }
      if (retryAfterMs === null) throw error
      console.log(`refused: waits ${retryAfterMs} ms`)
      await sleep(retryAfterMs)
    }
  }
}

await (process.argv[2] === 'serve' ? serve() : ask())
