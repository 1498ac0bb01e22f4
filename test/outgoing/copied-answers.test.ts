import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { fetch as undiciFetch } from 'undici'
import { type Budget, politeFetch } from '../../src/outgoing/index.js'
import { warnings } from '../support/warnings.js'
import { PartnerServer } from './partner-server.js'

const warned = warnings()
let server: PartnerServer
beforeAll(async () => {
  server = await PartnerServer.start()
})
afterAll(() => server.stop())

function politeWith(budget: Partial<Budget>, fetch?: unknown) {
  const budgets = [{ rate: 2, interval: '100ms', name: 'tokens', ...budget } as Budget]
  return politeFetch({
    limits: { [server.origin]: { budgets } },
    maxWait: '2s',
    fetch: fetch as typeof globalThis.fetch | undefined,
  })
}

describe('an answer with a status that no Response can be made with', () => {
  test('is given as it came, to settle too, and so are its clones', async () => {
    server.answer = (_, response) => void response.writeHead(999, 'Denied', { 'x-id': '7' }).end('blocked')
    const fieldsOf = async (answer: Response) => {
      const { status, statusText, ok, url, headers } = answer
      return { status, statusText, ok, url, id: headers.get('x-id'), text: await answer.text() }
    }
    const settled: unknown[] = []
    const polite = politeWith({
      settle: async response => {
        settled.push(await fieldsOf(response))
        return 1
      },
    })
    const url = `${server.origin}/page`
    const expected = { status: 999, statusText: 'Denied', ok: false, url, id: '7', text: 'blocked' }
    const answer = await polite(url)
    const clone = answer.clone()
    expect([await fieldsOf(answer), await fieldsOf(clone)]).toEqual([expected, expected])
    await sleep(5)
    expect(settled).toEqual([expected])
  })

  test('holds its units no longer than another one', async () => {
    server.answer = (_, response) => void response.writeHead(999).end()
    const polite = politeWith({ settle: () => 1 })
    for (let i = 0; i < 5; i++) expect((await polite(server.origin)).status).toBe(999)
  })
})

test('units of an answer that cannot be read at all count as estimated', async () => {
  const polite = politeWith({ settle: () => 1 }, async () => ({ status: 200, body: null }))
  for (let i = 0; i < 5; i++) await expect(polite(server.origin)).rejects.toThrow(TypeError)
})

describe('with the fetch of undici', () => {
  test('settle and the caller read the same body', async () => {
    server.answer = (_, response) => void response.end('{"used":7}')
    const settled: string[] = []
    const settle = async (response: Response) => {
      settled.push(await response.text())
      return 1
    }
    const answer = await politeWith({ settle }, undiciFetch)(`${server.origin}/page`)
    expect([answer.url, await answer.text()]).toEqual([`${server.origin}/page`, '{"used":7}'])
    await sleep(5)
    expect(settled).toEqual(['{"used":7}'])
    expect(warned.codes).toEqual([])
  })

  test('settle reads the body of a refused call that is sent again', async () => {
    let calls = 0
    server.answer = (_, response) => {
      if (calls++ > 0) return response.end('ok')
      return response.writeHead(429, { 'retry-after': '0' }).end('{"used":7}')
    }
    const settled: string[] = []
    const settle = async (response: Response) => {
      settled.push(await response.text())
      return 1
    }
    expect(await (await politeWith({ settle }, undiciFetch)(server.origin)).text()).toBe('ok')
    await sleep(5)
    expect(settled.sort()).toEqual(['ok', '{"used":7}'].sort())
  })
})

describe('a settle that does not read the body', () => {
  const CHUNK = new Uint8Array(65_536)

  test('gives the copy up, so that what the caller reads is not kept for it', async () => {
    server.answer = (_, response) => void response.writeHead(200, { 'x-tokens': '1' }).end(CHUNK)
    let copy: Response | undefined
    const settle = (response: Response) => {
      copy = response
      return Number(response.headers.get('x-tokens'))
    }
    const answer = await politeWith({ settle })(server.origin)
    await new Promise(setImmediate)
    expect([copy?.bodyUsed, answer.bodyUsed]).toEqual([true, false])
    expect((await answer.arrayBuffer()).byteLength).toBe(CHUNK.length)
  })

  test('does not keep the connection of a refused call that is sent again', async () => {
    const closed: Promise<unknown>[] = []
    server.answer = (_, response) => {
      if (closed.length > 0) return void response.end('ok')
      closed.push(once(response, 'close'))
      response.writeHead(429, { 'retry-after': '0' }).write(CHUNK)
    }
    const settle = () => 1
    expect(await (await politeWith({ settle })(server.origin)).text()).toBe('ok')
    const lost = await Promise.race([closed[0].then(() => 'closed'), sleep(2000, 'open', { ref: false })])
    expect(lost).toBe('closed')
  })

  test('does not end what another settle still reads', async () => {
    server.answer = (_, response) => void response.end('text')
    let read: string | undefined
    const budgets: Budget[] = [
      { rate: 2, interval: '100ms', name: 'calls', settle: () => 1 },
      {
        ...{ rate: 2, interval: '100ms', name: 'tokens' },
        async settle(response) {
          await sleep(20)
          read = await response.text()
          return 1
        },
      },
    ]
    const polite = politeFetch({ limits: { [server.origin]: { budgets } } })
    expect(await (await polite(server.origin)).text()).toBe('text')
    await sleep(50)
    expect(read).toBe('text')
    expect(warned.codes).toEqual([])
  })
})
