import { setTimeout as pause } from 'node:timers/promises'
import { Queue, Worker } from 'bullmq'
import { DelayQueue } from '../../src/waiting/queue/delay-queue.js'
import { RedisServer } from '../../test/support/redis-server.js'
import { readWork } from '../contest/redis-meter.js'

export interface Lateness {
  readonly name: string
  readonly deliveries: number
  readonly messages: number
  readonly p50: number
  readonly p99: number
  readonly most: number
  /** Commands a message from push to acknowledgement, those inside scripts included; and those that clients sent. */
  readonly commands: number
  readonly sent: number
}

const MESSAGES = 2000
const SPAN_MS = 5000

/** Pushes `delaysMs` and resolves to the lateness of each delivery, ms, once all have been made and acknowledged. */
type Contender = (server: RedisServer, delaysMs: readonly number[]) => Promise<number[]>

/** Collects how late each delivery was; `all` resolves with the last that is expected. */
function collector(expected: number) {
  const lateMs: number[] = []
  let done = () => {}
  const all = new Promise<void>(resolve => {
    done = resolve
  })
  return {
    lateMs,
    all,
    add(dueAt: number) {
      if (lateMs.push(Date.now() - dueAt) === expected) done()
    },
  }
}

/** Two consumers, on one client or each on its own, as in two processes. */
const spillway =
  (clients: number): Contender =>
  async (server, delaysMs) => {
    const queues = Array.from({ length: clients }, () => new DelayQueue(server.client(), 'bench'))
    await queues[0].pushMany(delaysMs.map(delay => ({ payload: { some: 'work' }, options: { delay } })))
    const { lateMs, all, add } = collector(delaysMs.length)
    const consumers = [0, 1].map(i => queues[i % clients].consume(async ({ dueAt }) => add(dueAt)))
    await all
    await pause(200)
    await Promise.all(consumers.map(consumer => consumer.close()))
    await Promise.all(queues.map(queue => queue.close()))
    return lateMs
  }

const bullmq: Contender = async (server, delaysMs) => {
  const connection = { host: server.host, port: server.port }
  const queue = new Queue('bench', { connection })
  await queue.addBulk(
    delaysMs.map(delay => ({ name: 'job', data: { some: 'work' }, opts: { delay, removeOnComplete: true } })),
  )
  const { lateMs, all, add } = collector(delaysMs.length)
  const workers = [0, 1].map(
    () =>
      new Worker(
        'bench',
        async (job: { timestamp: number; delay: number; opts: { delay: number } }) =>
          add(job.timestamp + job.opts.delay),
        { connection },
      ),
  )
  await all
  await pause(200)
  await Promise.all(workers.map(worker => worker.close()))
  await queue.close()
  return lateMs
}

const CONTENDERS: ReadonlyArray<readonly [name: string, contender: Contender]> = [
  ['spillway, one client', spillway(1)],
  ['spillway, two clients', spillway(2)],
  ['BullMQ', bullmq],
]

/**
 * 2000 messages due at random moments within five seconds, from half a second on; two consumers. The same moments for
 * all.
 */
export async function lateness(): Promise<Lateness[]> {
  const delaysMs = Array.from({ length: MESSAGES }, () => 500 + Math.floor(Math.random() * SPAN_MS))
  const results: Lateness[] = []
  for (const [name, contender] of CONTENDERS) {
    const server = await RedisServer.start()
    const admin = server.client()
    const before = await readWork(admin)
    const late = (await contender(server, delaysMs)).sort((a, b) => a - b)
    const after = await readWork(admin)
    const sent = ['evalsha', 'eval', 'bzpopmin', 'blpop', 'brpoplpush'].reduce((sum, c) => sum + after.calls(c), 0)
    results.push({
      name,
      messages: MESSAGES,
      deliveries: late.length,
      p50: late[Math.floor(late.length * 0.5)],
      p99: late[Math.floor(late.length * 0.99)],
      most: late[late.length - 1],
      commands: (after.commands - before.commands) / MESSAGES,
      sent: sent / MESSAGES,
    })
    await server.stop()
  }
  return results
}
