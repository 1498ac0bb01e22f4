// A cost that is known only afterwards: the tokens that a language model uses for an answer. Each user may use 1000
// tokens in two seconds; a token comes back every two milliseconds. A request is charged an estimate of 300 at first,
// so that many at once cannot slip through, and settled when its handler answers: what was too much is given back, what
// was too little is charged, and the user then waits the longer.
//
//   node --import tsx examples/settle.ts
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import express from 'express'
import { rateLimit } from 'spillway/express'

const ESTIMATE = 300

const chat = rateLimit({
  policy: '1000/2s token-bucket',
  key: req => req.get('x-user'),
  cost: ESTIMATE,
  settle: (_req, res) => res.locals.tokens,
})

const app = express()
app.post('/chat', chat, (req, res) => {
  // A stand-in for your model, which returns how many tokens it has used.
  res.locals.tokens = Number(req.query.tokens)
  res.send('an answer')
})
const server = app.listen(0, '127.0.0.1')
await once(server, 'listening')
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/chat`

/** Asks for an answer that uses `tokens` tokens. Returns how long to wait if the request is refused. */
async function ask(tokens: number, note: string): Promise<number> {
  const response = await fetch(`${url}?tokens=${tokens}`, {
    method: 'POST',
    headers: { 'x-user': 'ada', accept: 'application/problem+json' },
  })
  const atFirst = response.headers.get('x-ratelimit-remaining')
  const problem = response.ok ? undefined : ((await response.json()) as { retryAfterMs: number })
  // The request is settled when its handler has answered, which is about now.
  await sleep(20)
  const { remaining } = await chat.limiter.peek('ada', 0)
  console.log(
    problem
      ? `refused: an estimate of ${ESTIMATE} does not fit, come back in ${problem.retryAfterMs} ms   ← ${note}`
      : `passed: charged ${ESTIMATE} at first (${atFirst} left), used ${tokens}, then ${remaining} left   ← ${note}`,
  )
  return problem?.retryAfterMs ?? 0
}

await ask(40, 'less than estimated: the rest comes back')
await ask(300, 'as much as estimated')
await ask(1400, 'more than estimated, even more than there is: a debt')
const waitMs = await ask(40, 'the debt has to be earned first')
await sleep(waitMs)
await ask(40, 'as promised')
server.close()
server.closeAllConnections()
