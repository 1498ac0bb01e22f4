// A process that calls a ChatPartner through politeFetch with budgets of calls and tokens, and tells the order in which
// its calls left: see chat-show.ts.
import { Redis } from 'ioredis'
import { politeFetch } from '../../src/outgoing/index.js'
import { answering } from './answering.js'
import { randomFrom } from './random.js'

export interface Chat {
  readonly url: string
  readonly seed: string
  readonly count: number
  readonly calls: number
  readonly tokens: number
  readonly intervalMs: number
}

export interface Chatted {
  /** The numbers of the calls, as they left for the first time. */
  readonly order: readonly number[]
  readonly statuses: Readonly<Record<string, number>>
}

const client = new Redis(process.argv[2])
await client.ping()

answering(async ({ url, seed, count, calls, tokens, intervalMs }: Chat): Promise<Chatted> => {
  const random = randomFrom(seed)
  const order: number[] = []
  const statuses: Record<string, number> = {}
  const bodyOf = (init: RequestInit | undefined) => JSON.parse(init?.body as string)
  const polite = politeFetch({
    client,
    maxWait: '10m',
    limits: {
      [new URL(url).origin]: {
        budgets: [
          { rate: calls, interval: intervalMs, name: 'calls' },
          {
            rate: tokens,
            interval: intervalMs,
            name: 'tokens',
            cost: (_, init) => bodyOf(init).estimate,
            settle: async response => {
              // A call that was refused has cost nothing.
              if (!response.ok) return 0
              const text = await response.clone().text()
              const [, used] = /"total_tokens":(\d+)/.exec(text) ?? []
              return used === undefined ? undefined : Number(used)
            },
          },
        ],
      },
    },
    fetch: (input, init) => {
      const { number } = bodyOf(init)
      if (!order.includes(number)) order.push(number)
      return fetch(input, init)
    },
  })
  const call = async (number: number) => {
    const actual = random.integer(1, 4000)
    const factor = random.integer(100, 300) / 100
    // Four of five are too high, one is too low.
    const estimate = Math.ceil(random.integer(1, 5) < 5 ? actual * factor : actual / factor)
    const answer = await polite(url, { method: 'POST', body: JSON.stringify({ number, tokens: actual, estimate }) })
    await answer.arrayBuffer()
    statuses[answer.status] = (statuses[answer.status] ?? 0) + 1
  }
  await Promise.all(Array.from({ length: count }, (_, number) => call(number)))
  return { order, statuses }
})
