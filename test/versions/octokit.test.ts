import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { jsonFromChild } from '../support/child.js'
import { root } from '../support/files.js'
import { testRedis } from '../support/test-redis.js'

/**
 * octokit has ES modules only: it runs in processes of its own. `alias`: its plugin finds ours where it imports
 * bottleneck.
 */
function octokit(
  url: string,
  { alias = false, redisPort = 0, name = 'one' }: { alias?: boolean; redisPort?: number; name?: string } = {},
): Promise<{ results: string[]; limits: string[]; retries: number }> {
  const entry = join(root, redisPort > 0 ? 'dist/bottleneck.mjs' : 'dist/bottleneck/light.mjs')
  const hooks = `export async function resolve(name, context, next) {
    return next(name === 'bottleneck/light.js' ? ${JSON.stringify(`file://${entry}`)} : name, context)
  }`
  return jsonFromChild(
    `import { register } from 'node:module'
     ${alias ? `register('data:text/javascript,' + encodeURIComponent(${JSON.stringify(hooks)}))` : ''}
     const { Octokit } = await import('@octokit/core')
     const { throttling } = await import('@octokit/plugin-throttling')
     const { default: Bottleneck } = await import(${JSON.stringify(`file://${entry}`)})
     const limits: string[] = []
     const hear = (kind: string) => (after: number, options: { url: string }, _: unknown, retries: number) => {
       limits.push(kind + ' ' + after + ' ' + options.url)
       return retries < 2
     }
     const connection = ${redisPort} > 0 ? new Bottleneck.IORedisConnection({ clientOptions: { port: ${redisPort} } }) : undefined
     const client = new (Octokit.plugin(throttling as never))({
       baseUrl: ${JSON.stringify(url)},
       throttle: {
         ${alias ? '' : 'Bottleneck,'} connection, id: 'shared', retryAfterBaseValue: 20,
         onRateLimit: hear('primary'), onSecondaryRateLimit: hear('secondary'),
       },
     } as never)
     const asked = ['GET /plain', 'GET /primary/${name}', 'GET /secondary/${name}', 'POST /write', 'GET /plain'].map(route => client.request(route))
     const results = (await Promise.all(asked)).map(({ data }) => String(data))
     await connection?.disconnect()
     console.log(JSON.stringify({ results, limits }))`,
    { timeoutMs: 60_000 },
  )
}

describe("octokit's throttling plugin", () => {
  const redis = testRedis()
  let server: Server
  let url: string
  /** How often each path was asked for; and the requests in flight. */
  let asked: Map<string, number>
  let inFlight = 0
  let most = 0

  beforeAll(async () => {
    server = createServer(async (request, response) => {
      const path = request.url ?? ''
      const times = (asked.get(path) ?? 0) + 1
      asked.set(path, times)
      most = Math.max(most, ++inFlight)
      await new Promise(resolve => setTimeout(resolve, 20))
      inFlight--
      const refuse = (status: number, fields: Record<string, string>, message: string) => {
        response.writeHead(status, { 'content-type': 'application/json', ...fields })
        response.end(JSON.stringify({ message }))
      }
      if (path.startsWith('/primary') && times === 1) {
        const reset = String(Math.floor(Date.now() / 1000))
        refuse(403, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': reset }, 'API rate limit exceeded')
      } else if (path.startsWith('/secondary') && times === 1) {
        refuse(403, { 'retry-after': '2' }, 'You have exceeded a secondary rate limit')
      } else {
        response.writeHead(200, { 'content-type': 'text/plain' })
        response.end(`served ${path}`)
      }
    })
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  })
  beforeEach(() => {
    asked = new Map()
    most = 0
  })
  afterAll(() => {
    server.close()
  })

  const served = (name: string) =>
    ['/plain', `/primary/${name}`, `/secondary/${name}`, '/write', '/plain'].map(path => `served ${path}`)

  test.each([
    ['by its option', false],
    ['where it imports bottleneck', true],
  ])('retries after primary and secondary limits with ours %s', async (_, alias) => {
    const { results, limits } = await octokit(url, { alias })
    expect(results).toEqual(served('one'))
    expect(limits.sort()).toEqual([expect.stringMatching(/^primary [01] \/primary/), 'secondary 2 /secondary/one'])
    expect(asked.get('/primary/one')).toBe(2)
  })

  test('three processes share its limits over Redis', async () => {
    const names = ['a', 'b', 'c']
    const answers = await Promise.all(names.map(name => octokit(url, { redisPort: redis.port, name })))
    expect(answers.map(({ results }) => results)).toEqual(names.map(served))
    // Its group `global` has maxConcurrent 10, for all of them.
    expect(most).toBeLessThanOrEqual(10)
    expect(asked.get('/write')).toBe(3)
  }, 70_000)
})
