import assert from 'node:assert/strict'
import { rateLimit } from 'spillway/fetch'
import { eventually } from '../../support/eventually.js'
import { rawClient } from '../../support/raw-client.js'
import type { Case } from '../case.js'
import { checkTwoASecond } from './two-a-second.js'
import { serveWeb, type WebHandler } from './web-server.js'

export const fetchCases: Case[] = [
  { name: 'fetch', run: limits },
  { name: 'fetch, requests that end early', run: earlyEnds },
]

async function serving(handle: WebHandler, work: (port: number) => Promise<void>): Promise<string> {
  const server = await serveWeb(handle)
  try {
    await work(server.port)
  } finally {
    await server.close()
  }
  return server.by
}

function limits(): Promise<string> {
  const limit = rateLimit({ policy: '2/1s' })
  const addresses: unknown[] = []
  const answer: WebHandler = async (request, peer) => {
    const { refusal, decision, apply } = await limit(request, peer)
    addresses.push(decision?.key)
    return refusal ?? apply(new Response(`${decision?.remaining} left`))
  }
  return serving(answer, async port => {
    await checkTwoASecond(port)
    assert.deepEqual(addresses, new Array(4).fill('127.0.0.1'))
  })
}

/** Clients that leave while the handler works, and in the midst of the body. */
async function earlyEnds(): Promise<string> {
  const ends: unknown[] = []
  const limit = rateLimit({
    policy: '5/15m',
    key: () => 'mallory',
    cost: 0,
    settle: (request, response, end) => {
      ends.push([new URL(request.url).pathname, response.status, { ...end }])
      return 1
    },
  })
  let atWork = 0
  let gone = 0
  let finish = () => {}
  let read = 0
  const answer: WebHandler = async (request, peer) => {
    const { refusal, apply } = await limit(request, peer)
    if (refusal) return refusal
    if (new URL(request.url).pathname === '/quick') return apply(new Response('hello', { status: 201 }))
    if (new URL(request.url).pathname === '/work') {
      request.signal.addEventListener('abort', () => gone++)
      atWork++
      await new Promise<void>(resolve => {
        finish = resolve
      })
      return apply(new Response('wrong', { status: 401 }))
    }
    const piece = new Uint8Array(65_536)
    const endless = new ReadableStream({
      pull(controller) {
        read++
        controller.enqueue(piece)
      },
    })
    return apply(new Response(endless))
  }
  const left = async () => (await limit.limiter.peek('mallory', 0)).remaining
  return serving(answer, async port => {
    assert.equal(await (await fetch(`http://127.0.0.1:${port}/quick`)).text(), 'hello')
    await eventually('a request that stays has paid', async () => (await left()) === 4)
    assert.deepEqual(ends.splice(0), [['/quick', 201, { completed: true, ended: true }]])

    const impatient = await rawClient(port)
    impatient.send('/work')
    await eventually('the handler works', () => atWork === 1)
    impatient.leave()
    await eventually('the server has noticed', () => gone === 1)
    assert.deepEqual([ends, await left()], [[], 4])
    finish()
    await eventually('it has paid', async () => (await left()) === 3)
    assert.deepEqual(ends.splice(0), [['/work', 401, { completed: false, ended: true }]])

    const reader = await rawClient(port)
    reader.send('/endless')
    await eventually('it reads', () => reader.received.length > 0 && read > 0)
    reader.leave()
    await eventually('it has paid', async () => (await left()) === 2)
    assert.deepEqual(ends, [['/endless', 200, { completed: false, ended: true }]])
  })
}
