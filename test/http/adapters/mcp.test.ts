import { afterEach, describe, expect, test } from '@jest/globals'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js'
import type { AuthInfo } from '@modelcontextprotocol/sdk/server/auth/types.js'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { type LimitToolsOptions, limitTools, type ToolCall } from '../../../src/http/adapters/mcp.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { ManualClock } from '../../../src/testing.js'
import { childProgram } from '../../support/child-program.js'
import { eventually } from '../../support/eventually.js'
import { warnings } from '../../support/warnings.js'
import { searchServer, serveTools } from './mcp-service.js'

const warned = warnings()
const closing: Array<() => unknown> = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

/** The tools that have run, one after the other. */
let ran: string[] = []
afterEach(() => {
  ran = []
})

function toolsOf(server: McpServer, ...names: string[]): McpServer {
  for (const name of names) {
    server.registerTool(name, {}, async () => {
      ran.push(name)
      if (name === 'broken') throw new Error('broken inside')
      return { content: [{ type: 'text', text: `${name} done` }], structuredContent: { tokens: 40 } }
    })
  }
  return server
}

const madeServer = () => new McpServer({ name: 'service', version: '1.0.0' }, { capabilities: { tools: {} } })

/** A server whose time stands still. */
function limited(options: LimitToolsOptions, clock = new ManualClock(0)): McpServer {
  const server = toolsOf(madeServer(), 'search', 'fetch', 'broken')
  limitTools(server, options.limiter ? options : { store: new MemoryStore({ clock }), ...options })
  return server
}

/** A client of a server, with what a transport over HTTP would tell of it. */
async function clientOf(
  server: Server | McpServer,
  told: { authInfo?: AuthInfo; sessionId?: string } = {},
): Promise<Client> {
  const [near, far] = InMemoryTransport.createLinkedPair()
  far.sessionId = told.sessionId
  const { send } = near
  near.send = (message, options) => send.call(near, message, { ...options, authInfo: told.authInfo })
  const client = new Client({ name: 'agent', version: '1.0.0' })
  await server.connect(far)
  await client.connect(near)
  closing.push(() => client.close())
  return client
}

/** 'done', 'failed' or the code of the error. */
async function call(client: Client, name = 'search', args = {}): Promise<unknown> {
  try {
    const { isError } = await client.callTool({ name, arguments: args })
    return isError ? 'failed' : 'done'
  } catch (error) {
    return (error as { code: number }).code
  }
}

async function calls(client: Client, ...names: string[]): Promise<unknown[]> {
  const all = []
  for (const name of names) all.push(await call(client, name))
  return all
}

const refusalOf = (client: Client, name = 'search') =>
  client.callTool({ name }).then(
    () => undefined,
    ({ code, message, data }) => ({ code, message, data }),
  )

describe('limitTools', () => {
  test('a call over the limit is a JSON-RPC error that says when to call again, and the tool does not run', async () => {
    const clock = new ManualClock(0)
    const client = await clientOf(limited({ policy: '2/1m' }, clock))
    expect(await calls(client, 'search', 'fetch')).toEqual(['done', 'done'])
    clock.advance(20_000)
    expect(await refusalOf(client)).toEqual({
      code: -32_023,
      message: 'MCP error -32023: search: Too many requests: try again in 40 seconds.',
      data: { retryAfterMs: 40_000, limit: 2, remaining: 0, resetAfterMs: 40_000, policy: '2-per-1m' },
    })
    expect(ran).toEqual(['search', 'fetch'])
    clock.advance(40_000)
    expect(await call(client)).toBe('done')
  })

  test('limits of a tool and of all together are decided together, all or none', async () => {
    const clock = new ManualClock(0)
    const client = await clientOf(limited({ policy: '3/1m', tools: { search: '1/10s', fetch: '1/10s' } }, clock))
    expect(await calls(client, 'search', 'search', 'search', 'fetch')).toEqual(['done', -32_023, -32_023, 'done'])
    expect((await refusalOf(client))?.data).toMatchObject({ policy: 'search', retryAfterMs: 10_000 })
    // The refused calls have spent nothing of the limit for all: one is left.
    clock.advance(10_000)
    expect(await calls(client, 'search', 'fetch')).toEqual(['done', -32_023])
    expect((await refusalOf(client, 'fetch'))?.data).toMatchObject({ policy: '3-per-1m', retryAfterMs: 50_000 })
  })

  test('a tool without a limit of its own, and none for all, is not limited', async () => {
    const client = await clientOf(limited({ tools: { search: '1/1m' } }))
    expect(await calls(client, 'search', 'search', 'fetch', 'fetch')).toEqual(['done', -32_023, 'done', 'done'])
  })

  test('tools are limited whether they are registered before, after, or on a server that is connected', async () => {
    const server = madeServer()
    const client = await clientOf(server)
    toolsOf(server, 'before')
    limitTools(server, { policy: '2/1m', store: new MemoryStore() })
    toolsOf(server, 'after')
    expect(await calls(client, 'before', 'after', 'after')).toEqual(['done', 'done', -32_023])
  })

  test('a plain Server is limited, also one with a handler for everything', async () => {
    const handlers: Array<(server: Server) => void> = [
      server => {
        server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: [] }))
        server.setRequestHandler(CallToolRequestSchema, () => ({ content: [] }))
      },
      server => {
        server.fallbackRequestHandler = async () => ({ content: [] })
      },
    ]
    for (const handle of handlers) {
      const server = new Server({ name: 'plain', version: '1.0.0' }, { capabilities: { tools: {} } })
      limitTools(server, { policy: '1/1m', store: new MemoryStore() })
      handle(server)
      expect(await calls(await clientOf(server), 'any', 'any')).toEqual(['done', -32_023])
    }
  })

  test('a request without the name of a tool is left to the SDK', async () => {
    const client = await clientOf(limited({ policy: '0/1m' }))
    await expect(client.callTool({ name: 5 as never })).rejects.toMatchObject({
      code: -32_603,
      message: expect.stringContaining('expected string'),
    })
  })

  describe('the key', () => {
    const authInfo = (clientId: string): AuthInfo => ({ token: 't', scopes: [], clientId })
    const options = () => ({ policy: '1/1m', store: new MemoryStore() })

    test('is the client of the authorization, over all its sessions', async () => {
      const shared = options()
      const clients = [
        await clientOf(limited(shared), { authInfo: authInfo('ann'), sessionId: '1' }),
        await clientOf(limited(shared), { authInfo: authInfo('ann'), sessionId: '2' }),
        await clientOf(limited(shared), { authInfo: authInfo('bob'), sessionId: '3' }),
      ]
      expect(await Promise.all(clients.map(client => call(client)))).toEqual(['done', -32_023, 'done'])
      expect((await new RateLimiter({ ...shared, name: 'mcp' }).peek('ann')).allowed).toBe(false)
    })

    test('is else the session, else the connection', async () => {
      const shared = options()
      for (const told of [{ sessionId: '1' }, { sessionId: '2' }, {}, {}]) {
        expect(await calls(await clientOf(limited(shared), told), 'search', 'search')).toEqual(['done', -32_023])
      }
      expect(warned.texts).toEqual([])
    })

    test('may be a function of the call; undefined is not limited', async () => {
      const seen: ToolCall[] = []
      const key = (call: ToolCall) => {
        seen.push(call)
        return (call.args as { user?: string }).user
      }
      const client = await clientOf(limited({ ...options(), key }), { sessionId: 's', authInfo: authInfo('ann') })
      expect(await call(client, 'search', { user: 'ada' })).toBe('done')
      expect(await call(client, 'search', { user: 'ada' })).toBe(-32_023)
      expect([await call(client), await call(client)]).toEqual(['done', 'done'])
      expect(seen[0]).toEqual({ tool: 'search', args: { user: 'ada' }, sessionId: 's', authInfo: authInfo('ann') })
    })

    test('of another type, or an error of the function, is an error, and the tool does not run', async () => {
      for (const key of [() => ({}) as never, () => Promise.reject(new Error('no user'))]) {
        expect(await call(await clientOf(limited({ ...options(), key })))).toBe(-32_603)
      }
      expect(ran).toEqual([])
    })
  })

  describe('cost and settle', () => {
    const left = async (store: MemoryStore) => {
      const [remaining] = [(await new RateLimiter({ policy: '100/1m', name: 'mcp', store }).peek('k', 0)).remaining]
      return remaining
    }
    const tokens = (_: ToolCall, result: unknown) =>
      (result as { structuredContent: { tokens: number } })?.structuredContent.tokens

    test('a call costs what it says, and what its result says afterwards', async () => {
      const store = new MemoryStore({ clock: new ManualClock(0) })
      const cost = ({ args }: ToolCall) => (args as { cost?: number }).cost ?? 1
      const client = await clientOf(limited({ policy: '100/1m', store, key: () => 'k', cost, settle: tokens }))
      expect(await call(client, 'search', { cost: 90 })).toBe('done')
      expect(await left(store)).toBe(60)
      expect(await call(client, 'search', { cost: 61 })).toBe(-32_023)
      expect(await left(store)).toBe(60)
    })

    test('what fails has been spent, unless settle says otherwise', async () => {
      for (const [settle, remaining] of [
        [undefined, 99],
        [tokens, 99],
        [(_: ToolCall, result: unknown) => (result === undefined ? 0 : 1), 100],
      ] as const) {
        const store = new MemoryStore({ clock: new ManualClock(0) })
        const client = await clientOf(limited({ policy: '100/1m', store, key: () => 'k', settle }))
        expect(await call(client, 'broken')).toBe('failed')
        expect(await left(store)).toBe(remaining)
      }
    })

    test('a call for nothing that is settled passes while a unit is left, and pays when its result is there', async () => {
      const store = new MemoryStore({ clock: new ManualClock(0) })
      const client = await clientOf(limited({ policy: '100/1m', store, key: () => 'k', cost: 0, settle: tokens }))
      const answers = await calls(client, 'search', 'search', 'search', 'search')
      expect([answers, await left(store)]).toEqual([['done', 'done', 'done', -32_023], 0])
    })

    test('a settle that throws, or gives no cost, is a warning, and the result reaches the client', async () => {
      const wrong: LimitToolsOptions['settle'][] = [() => Promise.reject(new Error('no meter')), () => 1.5]
      for (const settle of wrong) expect(await call(await clientOf(limited({ policy: '9/1m', settle })))).toBe('done')
      await eventually('both are told', async () => warned.texts.length === 2)
      expect(warned.texts).toEqual([
        'limitTools: settle failed: no meter',
        'limitTools: settle failed: limitTools: settle gave 1.5: expected an integer ≥ 0, like 1',
      ])
      expect(warned.codes).toEqual(['SPILLWAY_SETTLE', 'SPILLWAY_SETTLE'])
    })

    test('a tool that runs to its end after its call was aborted gives settle its result', async () => {
      let end = () => {}
      const ended = new Promise<void>(resolve => {
        end = resolve
      })
      const server = madeServer()
      server.registerTool('slow', {}, async () => {
        await ended
        return { content: [], structuredContent: { tokens: 40 } }
      })
      const settled: unknown[] = []
      limitTools(server, { policy: '9/1m', settle: (_, result) => void settled.push(result), store: new MemoryStore() })
      const aborting = new AbortController()
      const slow = (await clientOf(server)).callTool({ name: 'slow' }, undefined, { signal: aborting.signal })
      setImmediate(() => aborting.abort('enough'))
      await expect(slow).rejects.toThrow('enough')
      end()
      await eventually('it is settled', async () => settled.length === 1)
      expect(settled).toMatchObject([{ structuredContent: { tokens: 40 } }])
    })

    test('a call that the client aborts while it waits for its turn does not run, and has been spent', async () => {
      const settled: unknown[] = []
      const settle = (...given: unknown[]) => void settled.push(given[1])
      const client = await clientOf(limited({ policy: '1/1h leaky-bucket burst=2', settle, store: new MemoryStore() }))
      expect(await call(client)).toBe('done')
      const aborting = new AbortController()
      const second = client.callTool({ name: 'fetch' }, undefined, { signal: aborting.signal })
      aborting.abort('enough')
      await expect(second).rejects.toThrow('enough')
      await eventually('it is settled', async () => settled.length === 2)
      expect([settled[1], ran]).toEqual([undefined, ['search']])
    })
  })

  test('in shadow mode everything passes, and the observer is told', async () => {
    const told: unknown[] = []
    const observer = {
      decided: ({ allowed, shadow }: { allowed: boolean; shadow: boolean }) => told.push([allowed, shadow]),
    }
    const client = await clientOf(limited({ policy: '1/1m', shadow: true, observer: observer as never }))
    expect(await calls(client, 'search', 'search')).toEqual(['done', 'done'])
    expect(told).toEqual([
      [true, false],
      [true, true],
    ])
  })

  test('a limiter of the service counts all tools of a client', async () => {
    const limiter = new RateLimiter({ policy: '2/1m' })
    const client = await clientOf(limited({ limiter }), { sessionId: 's' })
    expect(await calls(client, 'search', 'fetch', 'search')).toEqual(['done', 'done', -32_023])
    expect((await limiter.peek('s')).allowed).toBe(false)
  })

  test('servers without a store share one, so that the sessions of a client count together', async () => {
    const clients = []
    for (const sessionId of ['1', '2']) {
      const server = toolsOf(madeServer(), 'search')
      limitTools(server, { policy: '1/1m', name: 'sessions', key: () => 'ann' })
      clients.push(await clientOf(server, { sessionId }))
    }
    expect([await call(clients[0]), await call(clients[1])]).toEqual(['done', -32_023])
  })

  test('limits for tools that the server does not list are told once, at the first call', async () => {
    const client = await clientOf(limited({ tools: { serach: '1/1m', search: '9/1m' } }))
    expect(warned.texts).toEqual([])
    await calls(client, 'search', 'search')
    await eventually('it is told', async () => warned.texts.length > 0)
    expect(warned.codes).toEqual(['SPILLWAY_MCP_TOOL'])
    expect(warned.texts).toEqual([
      'limitTools: tools has "serach", and the server lists no such tool: it limits nothing',
    ])
  })

  test('every kind of limit may be that of a tool', async () => {
    const clock = new ManualClock(Date.UTC(2026, 0, 31, 23))
    const tools = { search: ['2/200ms token-bucket burst=3', { quota: 9, calendar: 'month' as const }] }
    const client = await clientOf(limited({ policy: ['8/1m', '9/1h'], tools }, clock))
    expect(await calls(client, 'search', 'search', 'search', 'search')).toEqual(['done', 'done', 'done', -32_023])
    expect((await refusalOf(client))?.data).toMatchObject({ policy: 'search', limit: 2, retryAfterMs: 100 })
    expect(warned.texts).toEqual([])
  })

  test('a tool keeps what was spent when its quota changes, and its limits have names of their own', async () => {
    const store = new MemoryStore({ clock: new ManualClock(0) })
    const first = await clientOf(limited({ tools: { search: '2/1m' }, store, key: () => 'ann' }))
    expect(await calls(first, 'search', 'search', 'search')).toEqual(['done', 'done', -32_023])
    const policies = ['3/1m', '9/1s', { quota: 50, window: '1h', name: 'long' }]
    const second = await clientOf(limited({ tools: { search: policies }, store, key: () => 'ann' }))
    expect(await calls(second, 'search', 'search')).toEqual(['done', -32_023])
    expect((await refusalOf(second))?.data.policy).toBe('search')
  })

  test('long and foreign names of tools have limits, too', async () => {
    const long = `${'a'.repeat(100)}`
    const server = toolsOf(madeServer(), long)
    limitTools(server, { tools: { [long]: '1/1m', Zürich: '1/1m' }, store: new MemoryStore() })
    const client = await clientOf(server)
    expect(await calls(client, long)).toEqual(['done'])
    expect((await refusalOf(client, long))?.data.policy).toMatch(/^a{55}~[\w-]{8}$/)
  })

  test.each([
    ['differ in letters that no name of a limit may have', 'é', 'è'],
    ['begin with the same 64 letters', `${'x'.repeat(70)}1`, `${'x'.repeat(70)}2`],
  ])('tools whose names %s count apart', async (_, one, two) => {
    const server = toolsOf(madeServer(), one, two)
    limitTools(server, { tools: { [one]: '1/1m; 10/1h', [two]: '1/1m; 10/1h' }, store: new MemoryStore() })
    expect(await calls(await clientOf(server), one, two, one, two)).toEqual(['done', 'done', -32_023, -32_023])
  })

  test.each(['policy', 'tools', 'store', 'name', 'observer', 'shadow', 'deadline'])(
    'a limiter beside %s is refused at once',
    name => {
      const options = { limiter: new RateLimiter({ policy: '1/1m' }), [name]: 'x' }
      expect(() => limitTools(madeServer(), options as LimitToolsOptions)).toThrow(
        `limitTools: given both limiter and ${name}: expected ${name} where the limiter is made`,
      )
    },
  )
})

describe('limitTools over streamable HTTP', () => {
  /** A client with a session of its own, or without one. */
  async function visit(url: URL, name?: string): Promise<Client> {
    const headers = name === undefined ? undefined : { authorization: `Bearer ${name}` }
    const client = new Client({ name: 'agent', version: '1.0.0' })
    await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }))
    closing.push(() => client.close())
    return client
  }

  /** Serves until the end of the test; each session has a server of its own. */
  async function serving(options: LimitToolsOptions, sessions = true): Promise<URL> {
    const service = await serveTools(() => {
      const server = searchServer(() => ran.push('search'))
      limitTools(server, options)
      return server
    }, sessions)
    closing.push(service.close)
    return service.url
  }

  test('each session has its quota, and a refusal says when to call again', async () => {
    const url = await serving({ policy: '2/1m', store: new MemoryStore({ clock: new ManualClock(0) }) })
    const [one, another] = [await visit(url), await visit(url)]
    expect(await calls(one, 'search', 'search', 'search')).toEqual(['done', 'done', -32_023])
    expect(await calls(another, 'search', 'search', 'search')).toEqual(['done', 'done', -32_023])
    expect(await refusalOf(one)).toMatchObject({ data: { retryAfterMs: 60_000, policy: '2-per-1m' } })
    expect([ran.length, warned.texts]).toEqual([4, []])
  })

  test('who is authorized has one quota over all sessions, and without sessions', async () => {
    for (const sessions of [true, false]) {
      const url = await serving({ policy: '2/1m', store: new MemoryStore() }, sessions)
      const ann = [await visit(url, 'ann'), await visit(url, 'ann')]
      const bob = await visit(url, 'bob')
      expect([await call(ann[0]), await call(ann[1]), await call(ann[0])]).toEqual(['done', 'done', -32_023])
      expect(await call(bob)).toBe('done')
    }
    expect(warned.texts).toEqual([])
  })

  test('without authorization, session and key all share one count, which is told once', async () => {
    const url = await serving({ policy: '2/1m', store: new MemoryStore() }, false)
    const [one, another] = [await visit(url), await visit(url)]
    expect([await call(one), await call(another), await call(one)]).toEqual(['done', 'done', -32_023])
    expect(warned.codes).toEqual(['SPILLWAY_MCP_KEY'])
    expect(warned.texts[0]).toMatch(
      /^limitTools: a call came over HTTP without authorization and without a session, so/,
    )
  })
})

describe('limitTools over stdio', () => {
  const PROGRAM = `
    import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
    import { limitTools } from './src/http/adapters/mcp.js'
    import { searchServer } from './test/http/adapters/mcp-service.js'
    let ran = 0
    const server = searchServer(() => ++ran)
    limitTools(server, { policy: '2/1m' })
    server.connect(new StdioServerTransport())`

  test('a process limits its client; another process has a count of its own', async () => {
    const args = [childProgram(PROGRAM)]
    for (const _ of [1, 2]) {
      const client = new Client({ name: 'agent', version: '1.0.0' })
      await client.connect(new StdioClientTransport({ command: process.execPath, args }))
      closing.push(() => client.close())
      expect(await calls(client, 'search', 'search', 'search')).toEqual(['done', 'done', -32_023])
      expect((await refusalOf(client))?.data.retryAfterMs).toBeGreaterThan(50_000)
    }
  })
})
