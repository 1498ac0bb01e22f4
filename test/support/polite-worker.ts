// A process that calls a partner through politeFetch when it is told to, and tells how the calls ended. Forked by
// polite-workers.ts.
import { Redis } from 'ioredis'
import { politeFetch } from '../../src/outgoing/index.js'

export interface Calls {
  readonly url: string
  readonly count: number
  readonly rate: number
  readonly concurrency?: number
}

/**
 * How often each status was answered, counting an answer that was tried again only as its last; and when each call
 * ended.
 */
export interface Called {
  readonly statuses: Readonly<Record<string, number>>
}

const [redisUrl] = process.argv.slice(2)
const client = redisUrl ? new Redis(redisUrl) : undefined

process.on('message', async ({ url, count, rate, concurrency }: Calls) => {
  const limits = { [new URL(url).origin]: { rate, interval: '1s', concurrency } }
  const polite = politeFetch({ limits, client, maxWait: '5m' })
  const statuses: Record<string, number> = {}
  const call = async () => {
    const answer = await polite(url)
    await answer.arrayBuffer()
    statuses[answer.status] = (statuses[answer.status] ?? 0) + 1
  }
  await Promise.all(Array.from({ length: count }, call))
  process.send?.({ statuses } satisfies Called)
})
process.once('disconnect', () => process.exit(0))
await client?.ping()
process.send?.('ready')
