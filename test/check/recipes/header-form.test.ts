import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { RepositoryCopy } from './repository-copy.js'

/** A form with one field, "<remaining>/<quota>", and none where nobody has counted. */
const WRITER = `
function slashed(): Writer {
  return {
    write(fields, decision) {
      fields['X-Quota'] = \`\${remainingOf(decision)}/\${integer(decision.limit.quota)}\`
    },
  }
}
`

/** The edits of docs/architecture.md, "Add a header form". */
const LINES: ReadonlyArray<readonly [file: string, after: RegExp, text: string]> = [
  ['src/http/headers.ts', /(?<=export type HeaderForm = )/, "'slashed' | "],
  ['src/http/headers.ts', /(?<=const HEADER_FORMS: readonly HeaderForm\[\] = \[)/, "'slashed', "],
  ['src/http/headers.ts', /(?<=const writers[^{]+\{\n)/, '  slashed,\n'],
  ['src/http/headers.ts', /\n$/, WRITER],
]

const TEST = `
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, test } from '@jest/globals'
import express from 'express'
import { rateLimit } from '../../src/adapters/express.js'
import type { Decision } from '../../src/core/decision.js'
import { parsePolicy } from '../../src/core/limit.js'
import { headersFor } from '../../src/http/headers.js'
import { decide } from '../../src/limiter/settlement.js'
import { ManualClock } from '../../src/testing.js'

describe('slashed', () => {
  const [limit, second] = parsePolicy('3/1m; 9/1h')
  const verdict = { limit, allowed: true, remaining: 2, resetAfterMs: 1000, retryAfterMs: 0, delayMs: 0 }
  const fields = (decision: Decision) => headersFor(['slashed'], [limit], new ManualClock())(decision)

  test('an allowed, a denied and a degraded decision, and several limits', () => {
    expect(fields(decide('k', 1, [verdict], 'memory'))).toEqual({ 'X-Quota': '2/3' })
    const denied = { ...verdict, allowed: false, remaining: 0, retryAfterMs: 1000 }
    expect(fields(decide('k', 1, [denied], 'memory'))).toEqual({ 'X-Quota': '0/3' })
    expect(fields(decide('k', 1, [verdict], 'open'))).toEqual({})
    expect(fields(decide('k', 1, [{ ...verdict, limit: second, remaining: 8 }, verdict], 'memory'))).toEqual({ 'X-Quota': '2/3' })
  })

  test('over HTTP, as an option of the middleware', async () => {
    const app = express().use(rateLimit({ policy: '3/1m', headers: ['slashed'] }), (_, res) => void res.send('ok'))
    const server = createServer(app).listen(0, '127.0.0.1')
    await new Promise(done => server.once('listening', done))
    const reply = await fetch(\`http://127.0.0.1:\${(server.address() as AddressInfo).port}\`)
    await new Promise(done => server.close(done))
    expect([reply.status, reply.headers.get('x-quota')]).toEqual([200, '2/3'])
  })
})
`

describe('a header form that is added as docs/architecture.md says', () => {
  let copy: RepositoryCopy
  beforeAll(() => {
    copy = new RepositoryCopy()
    for (const [file, after, text] of LINES) copy.insert(file, after, text)
    copy.write('test/http/slashed.test.ts', TEST)
  }, 60_000)
  afterAll(() => copy.remove())

  test('compiles with changes in the files of the recipe only', () => {
    expect(copy.compilerErrors(['src', 'test/http/slashed.test.ts', 'test/http/headers.test.ts'])).toBe('')
  }, 120_000)

  test('writes its field with the option `headers`, and the other forms do not change', () => {
    expect(copy.passedTests(['test/http/slashed'], '')).toEqual([2])
    expect(copy.passedTests(['test/http/headers.test'], '')[0]).toBeGreaterThan(10)
  }, 120_000)
})
