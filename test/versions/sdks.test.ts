import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import Anthropic from '@anthropic-ai/sdk'
import { afterEach, describe, expect, test } from '@jest/globals'
import OpenAI from 'openai'
import { politeFetch } from '../../src/outgoing/index.js'
import { jsonFromChild } from '../support/child.js'
import { testRedis } from '../support/test-redis.js'

const [CALLS, TOKENS, INTERVAL] = [10, 500, 500]
/** What a call costs, as these partners tell at its end. */
const COST = 40

type Answer = (api: StrictApi, request: IncomingMessage, response: ServerResponse) => Promise<void>

/**
 * An API that counts calls when they arrive and tokens when it has sent an answer, and refuses what is too much in any
 * interval.
 */
class StrictApi {
  refused = 0
  open = 0
  mostOpen = 0
  parts = 0
  readonly #calls: number[] = []
  readonly #tokens: { readonly at: number; readonly units: number }[] = []
  readonly #server: Server

  private constructor(answer: Answer) {
    this.#server = createServer((request, response) => {
      request.resume()
      const now = performance.now()
      const calls = this.#calls.filter(at => at > now - INTERVAL).length
      const tokens = this.#tokens.filter(({ at }) => at > now - INTERVAL).reduce((sum, { units }) => sum + units, 0)
      if (calls >= CALLS || tokens >= TOKENS) {
        this.refused++
        response.writeHead(429, { 'retry-after-ms': '50', 'content-type': 'application/json' }).end('{}')
        return
      }
      this.#calls.push(now)
      this.mostOpen = Math.max(this.mostOpen, ++this.open)
      void answer(this, request, response).finally(() => {
        this.open--
        this.#tokens.push({ at: performance.now(), units: COST })
      })
    })
  }

  static async start(answer: Answer): Promise<StrictApi> {
    const api = new StrictApi(answer)
    api.#server.listen(0, '127.0.0.1')
    await once(api.#server, 'listening')
    apis.push(api)
    return api
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  stop(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }
}

const apis: StrictApi[] = []
afterEach(() => {
  for (const api of apis.splice(0)) api.stop()
})

/** Events of a stream that takes some time; it ends early if the client has gone. */
async function stream(api: StrictApi, response: ServerResponse, events: readonly string[]): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  for (const event of events) {
    await sleep(20)
    if (response.destroyed) return
    response.write(event)
    api.parts++
  }
  response.end()
}

const WORDS = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']

const openai: Answer = (api, _, response) =>
  stream(api, response, [
    ...WORDS.map(content => `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`),
    `data: ${JSON.stringify({ choices: [], usage: { total_tokens: COST } })}\n\n`,
    'data: [DONE]\n\n',
  ])

const anthropic: Answer = (api, _, response) => {
  const event = (type: string, data: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`
  return stream(api, response, [
    event('message_start', { message: { id: 'm', type: 'message', role: 'assistant', content: [], usage: {} } }),
    event('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
    ...WORDS.map(text => event('content_block_delta', { index: 0, delta: { type: 'text_delta', text } })),
    event('content_block_stop', { index: 0 }),
    event('message_delta', { delta: {}, usage: { output_tokens: COST } }),
    event('message_stop', {}),
  ])
}

const github: Answer = async (_, request, response) => {
  await sleep(10)
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ path: request.url }))
}

/** The last number of tokens that a stream of events tells. */
async function tokensOf(answer: Response): Promise<number> {
  if (!answer.ok) return 0
  return Number([...(await answer.text()).matchAll(/_tokens":(\d+)/g)].at(-1)?.[1] ?? COST)
}

const redis = testRedis()

describe.each([false, true])('over Redis: %s', overRedis => {
  const polite = (api: StrictApi) =>
    politeFetch({
      client: overRedis ? redis.client() : undefined,
      maxWait: '1m',
      limits: {
        [api.url]: {
          concurrency: 6,
          budgets: [
            { name: 'calls', rate: CALLS, interval: INTERVAL },
            { name: 'tokens', rate: TOKENS, interval: INTERVAL, cost: () => 2 * COST, settle: tokensOf },
          ],
        },
      },
    })

  test('openai: streams keep to calls and tokens, and none is refused', async () => {
    const api = await StrictApi.start(openai)
    const client = new OpenAI({ apiKey: 'k', baseURL: api.url, fetch: polite(api), maxRetries: 0 })
    const texts = Array.from({ length: 30 }, async () => {
      const events = await client.chat.completions.create({ model: 'm', messages: [], stream: true })
      let text = ''
      for await (const { choices } of events) text += choices[0]?.delta.content ?? ''
      return text
    })
    expect(await Promise.all(texts)).toEqual(Array(30).fill(WORDS.join('')))
    expect(api.refused).toBe(0)
  }, 30_000)

  test('anthropic: streams keep to calls and tokens, and none is refused', async () => {
    const api = await StrictApi.start(anthropic)
    const client = new Anthropic({ apiKey: 'k', baseURL: api.url, fetch: polite(api), maxRetries: 0 })
    const texts = Array.from({ length: 30 }, async () => {
      const events = client.messages.stream({ model: 'm', max_tokens: 10, messages: [] })
      return events.finalText()
    })
    expect(await Promise.all(texts)).toEqual(Array(30).fill(WORDS.join('')))
    expect(api.refused).toBe(0)
  }, 30_000)

  test('openai: a caller that leaves its stream early ends it, and gives its place back', async () => {
    const api = await StrictApi.start(openai)
    const client = new OpenAI({ apiKey: 'k', baseURL: api.url, fetch: polite(api), maxRetries: 0 })
    for (let call = 0; call < 8; call++) {
      const events = await client.chat.completions.create({ model: 'm', messages: [], stream: true })
      for await (const _ of events) break
    }
    expect(api.parts).toBeLessThan(8 * WORDS.length)
    expect(api.refused).toBe(0)
  }, 30_000)

  test('octokit: calls keep to the limit, and none is refused', async () => {
    const api = await StrictApi.start(github)
    // It has ES modules only.
    const answers = await jsonFromChild(`
      import { Octokit } from '@octokit/core'
      import { Redis } from 'ioredis'
      import { politeFetch } from './src/outgoing/index.ts'
      const client = ${overRedis} ? new Redis(${redis.port}) : undefined
      const limits = { '${api.url}': { rate: ${CALLS}, interval: ${INTERVAL}, concurrency: 6 } }
      const octokit = new Octokit({ baseUrl: '${api.url}', request: { fetch: politeFetch({ client, limits, maxWait: '1m' }) } })
      const answers = await Promise.all(Array.from({ length: 30 }, (_, i) => octokit.request('GET /repos/' + i)))
      console.log(JSON.stringify(answers.map(({ data }) => data)))
      client?.disconnect()
    `)
    expect(answers).toEqual(Array.from({ length: 30 }, (_, i) => ({ path: `/repos/${i}` })))
    expect(api.refused).toBe(0)
    expect(api.mostOpen).toBeLessThanOrEqual(6)
  }, 30_000)
})
