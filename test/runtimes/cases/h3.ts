import assert from 'node:assert/strict'
import { H3, type H3Event, serve } from 'h3'
import { concurrencyLimit, rateLimit } from 'spillway/h3'
import { eventually } from '../../support/eventually.js'
import { rawClient } from '../../support/raw-client.js'
import type { Case } from '../case.js'
import { checkTwoASecond } from './two-a-second.js'

export const h3Cases: Case[] = [
  { name: 'h3', run: limits },
  { name: 'h3, requests that end early', run: earlyEnds },
]

async function serving(app: H3, work: (port: number) => Promise<void>): Promise<string> {
  const server = serve(app, { port: 0, hostname: '127.0.0.1', silent: true, gracefulShutdown: false })
  await server.ready()
  try {
    await work(Number(new URL(server.url as string).port))
  } finally {
    await server.close(true)
  }
  return `by its server for ${server.runtime}`
}

function limits(): Promise<string> {
  const addresses: unknown[] = []
  const app = new H3().use(rateLimit({ policy: '2/1s', message: noting }))
  function noting({ context }: H3Event): undefined {
    addresses.push(context.rateLimit?.key)
  }
  app.get('/', event => {
    noting(event)
    return `${event.context.rateLimit?.remaining} left`
  })
  return serving(app, async port => {
    await checkTwoASecond(port)
    assert.deepEqual(addresses, new Array(4).fill('127.0.0.1'))
  })
}

/** Clients that leave while the handler works, and in the midst of the body. */
function earlyEnds(): Promise<string> {
  const ends: unknown[] = []
  const logins = rateLimit({
    policy: '5/15m',
    key: () => 'mallory',
    cost: 0,
    settle: (event, end) => ends.push([event.url.pathname, event.res.status, { ...end }]) && 1,
  })
  let atWork = 0
  let gone = 0
  let finish = () => {}
  let read = 0
  const app = new H3({ silent: true }).use(concurrencyLimit({ permits: 1, key: () => 'all' })).use(logins)
  app.get('/quick', event => {
    event.res.status = 201
    return 'hello'
  })
  app.get('/work', async event => {
    event.req.signal.addEventListener('abort', () => gone++)
    atWork++
    await new Promise<void>(resolve => {
      finish = resolve
    })
    return new Response('wrong', { status: 401 })
  })
  app.get('/endless', () => {
    const piece = new Uint8Array(65_536)
    const pull = (controller: ReadableStreamDefaultController) => {
      read++
      controller.enqueue(piece)
    }
    return new ReadableStream({ pull })
  })
  const left = async () => (await logins.limiter.peek('mallory', 0)).remaining
  return serving(app, async port => {
    const quick = () => fetch(`http://127.0.0.1:${port}/quick`)
    assert.equal(await (await quick()).text(), 'hello')
    await eventually('a request that stays has paid', async () => (await left()) === 4)
    assert.deepEqual(ends.splice(0), [['/quick', 201, { completed: true, ended: true }]])

    const impatient = await rawClient(port)
    impatient.send('/work')
    await eventually('the handler works', () => atWork === 1)
    impatient.leave()
    await eventually('the server has noticed', () => gone === 1)
    assert.deepEqual([ends, await left(), (await quick()).status], [[], 4, 429])
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
