import { setTimeout as pause } from 'node:timers/promises'
import { DelayQueue } from '../../src/waiting/queue/delay-queue.js'
import { RedisServer } from '../../test/support/redis-server.js'
import { stateKeys } from '../../test/support/state-keys.js'
import { readWork } from '../contest/redis-meter.js'

export interface Bound {
  readonly what: string
  readonly measured: string
  readonly bound: string
  readonly holds: boolean
}

const MANY = 100_000

/** What is promised of one queue, measured: calls, times, commands. */
export async function bounds(): Promise<Bound[]> {
  return [...(await many()), await idle(), await toIdle()]
}

/** 100 000 messages: the longest script call while they are pushed, cancelled among, and delivered. */
async function many(): Promise<Bound[]> {
  const server = await RedisServer.start({ args: ['--slowlog-log-slower-than', '1000', '--slowlog-max-len', '100000'] })
  const client = server.client()
  const queue = new DelayQueue<number>(client, 'many')
  const at = Date.now() + 20_000
  for (let i = 0; i < MANY; i += 5000) {
    await queue.pushMany(Array.from({ length: 5000 }, (_, k) => ({ payload: i + k, options: { at, id: `m${i + k}` } })))
  }
  const cancels: number[] = []
  for (let i = 0; i < 200; i++) {
    const startedAt = performance.now()
    await queue.cancel(`m${(i * 499) % MANY}`)
    cancels.push(performance.now() - startedAt)
  }
  await pause(Math.max(0, at - Date.now()))
  let count = 0
  let done = () => {}
  const all = new Promise<void>(resolve => {
    done = resolve
  })
  const startedAt = performance.now()
  const consumer = queue.consume(
    async () => {
      if (++count === MANY - 200) done()
    },
    { concurrency: 200 },
  )
  await all
  const perSecond = Math.round(((MANY - 200) / (performance.now() - startedAt)) * 1000)
  await consumer.close()
  await queue.close()
  const slow = (await client.slowlog('GET', 100_000)) as Array<[number, number, number, string[]]>
  const scripts = slow.filter(([, , , [command]]) => /^eval/i.test(command)).map(([, , us]) => us / 1000)
  const longest = Math.max(0, ...scripts)
  const slowestCancel = Math.max(...cancels)
  const keys = (await stateKeys(client)).length
  await server.stop()
  return [
    {
      what: `${MANY} due at once, delivered at ${perSecond} a second: longest script call`,
      measured: longest > 0 ? `${longest.toFixed(1)} ms` : 'below 1 ms',
      bound: '10 ms',
      holds: longest <= 10,
    },
    {
      what: `slowest of 200 cancels among ${MANY}`,
      measured: `${slowestCancel.toFixed(1)} ms`,
      bound: '5 ms',
      holds: slowestCancel < 5,
    },
    { what: 'keys left when everything is acknowledged', measured: String(keys), bound: '0', holds: keys === 0 },
  ]
}

/**
 * Commands of one idle consumer in 30 s, with a message that is due in an hour: fifteen blocks, after each of which it
 * asks for the queue's version, with one command in a script; once in that time it looks, with nine.
 */
async function idle(): Promise<Bound> {
  const server = await RedisServer.start()
  const admin = server.client()
  const queue = new DelayQueue(server.client(), 'idle')
  await queue.push('later', { delay: '1h' })
  const consumer = queue.consume(async () => {})
  // Ten seconds after it was built, a queue records itself for the dashboard.
  await pause(12_000)
  const before = await readWork(admin)
  await pause(30_000)
  const after = await readWork(admin)
  // Less the questions: three INFO.
  const commands = after.commands - before.commands - 3
  await consumer.close()
  await queue.close()
  await server.stop()
  return {
    what: 'commands in 30 s idle, one message due in an hour',
    measured: String(commands),
    bound: '60',
    holds: commands <= 60,
  }
}

/** From push to the start of the handler of an idle consumer, another process's as far as it knows. */
async function toIdle(): Promise<Bound> {
  const server = await RedisServer.start()
  const [here, there] = [
    new DelayQueue<number>(server.client(), 'to idle'),
    new DelayQueue<number>(server.client(), 'to idle'),
  ]
  const spans: number[] = []
  const consumer = there.consume(async ({ payload }) => {
    spans.push(performance.now() - payload)
  })
  await pause(200)
  for (let i = 0; i < 100; i++) {
    await here.push(performance.now())
    await pause(20)
  }
  await consumer.close()
  await Promise.all([here.close(), there.close()])
  await server.stop()
  const sorted = spans.sort((a, b) => a - b)
  const most = sorted[sorted.length - 1]
  return {
    what: `push to the handler of an idle consumer: slowest of ${sorted.length} (median ${sorted[50].toFixed(1)} ms)`,
    measured: `${most.toFixed(1)} ms`,
    bound: '20 ms',
    holds: sorted.length === 100 && most <= 20,
  }
}
