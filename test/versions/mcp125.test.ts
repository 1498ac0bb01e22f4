import { expect, test } from '@jest/globals'
import { Client } from 'mcp125/client/index.js'
import { InMemoryTransport } from 'mcp125/inMemory.js'
import { McpServer } from 'mcp125/server/mcp.js'
import { limitTools } from '../../src/http/adapters/mcp.js'

test('the oldest SDK that is promised: tools are limited that are registered before and afterwards', async () => {
  const server = new McpServer({ name: 'service', version: '1.0.0' })
  let ran = 0
  const register = (name: string) => server.registerTool(name, {}, async () => ({ content: [], _meta: { ran: ++ran } }))
  register('before')
  limitTools(server, { policy: '3/1m', tools: { after: '1/1m' } })
  register('after')
  const [near, far] = InMemoryTransport.createLinkedPair()
  const client = new Client({ name: 'agent', version: '1.0.0' })
  await server.connect(far)
  await client.connect(near)
  const codes: unknown[] = []
  for (const name of ['before', 'after', 'after', 'before', 'before']) {
    codes.push(
      await client.callTool({ name }).then(
        () => 0,
        ({ code, data }) => [code, data.policy],
      ),
    )
  }
  expect([codes, ran]).toEqual([[0, 0, [-32_023, 'after'], 0, [-32_023, '3-per-1m']], 3])
  await client.close()
})
