// Streams answers of a language model under its limits of calls and tokens, whose real number is known only at the end
// of a stream. The model is a local imitation that counts for itself.
//
//   node --import tsx examples/chat.ts
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { politeFetch } from 'spillway/outgoing'

const [CALLS, TOKENS] = [50, 2000]
const model = imitation()
model.listen(0, '127.0.0.1')
await once(model, 'listening')
const url = `http://127.0.0.1:${(model.address() as AddressInfo).port}/v1/chat`

/** The part for your service. With several processes, also pass `client: new Redis(…)`. */
const polite = politeFetch({
  limits: {
    [new URL(url).origin]: {
      concurrency: 10,
      budgets: [
        { name: 'calls', rate: CALLS, interval: '1s' },
        {
          name: 'tokens',
          rate: TOKENS,
          interval: '1s',
          cost: (_, init) => JSON.parse(String(init?.body)).max_tokens,
          settle: async response => {
            // A call that was refused has cost nothing.
            if (!response.ok) return 0
            const [, used] = /"total_tokens":(\d+)/.exec(await response.text()) ?? []
            return used === undefined ? undefined : Number(used)
          },
        },
      ],
    },
  },
})

/** Asks, and calls back for each word of the answer. */
async function ask(question: string, word: (word: string) => void): Promise<number> {
  const answer = await polite(url, { method: 'POST', body: JSON.stringify({ question, max_tokens: 300 }) })
  for await (const text of answer.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    for (const [, content] of text.matchAll(/"content":"([^"]*)"/g)) word(content)
  }
  return answer.status
}

let words = 0
const startedAt = performance.now()
const statuses = await Promise.all(Array.from({ length: 30 }, (_, i) => ask(`What is ${i}?`, () => words++)))
const refused = statuses.filter(status => status === 429).length
const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
console.log(`${statuses.length - refused} answers of ${words} words, ${refused} refused, in ${seconds} s`)
model.close()

/** Answers by server-sent events, with the usage at the end; refuses with 429 what is too much. */
function imitation() {
  const usage: { at: number; tokens: number }[] = []
  return createServer(async (req, res) => {
    req.resume()
    const recent = usage.filter(({ at }) => at > Date.now() - 1000)
    const left = TOKENS - recent.reduce((sum, { tokens }) => sum + tokens, 0)
    const fields = { 'x-ratelimit-limit-tokens': TOKENS, 'x-ratelimit-remaining-tokens': Math.max(0, left) }
    if (left <= 0 || recent.length >= CALLS) {
      res.writeHead(429, { ...fields, 'retry-after-ms': 100, 'x-ratelimit-reset-tokens': '1s' }).end()
      return
    }
    res.writeHead(200, { ...fields, 'content-type': 'text/event-stream' })
    for (const content of ['It ', 'is ', 'a ', 'number.']) {
      res.write(`data: {"choices":[{"delta":{"content":"${content}"}}]}\n\n`)
      await sleep(5)
    }
    const tokens = 100 + Math.floor(Math.random() * 200)
    usage.push({ at: Date.now(), tokens })
    res.end(`data: {"choices":[],"usage":{"total_tokens":${tokens}}}\n\ndata: [DONE]\n\n`)
  })
}
