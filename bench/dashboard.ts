// What the dashboard costs at its documented size, 200 processes with 1 000 limits in all: Redis (server time by INFO commandstats, of 15
// minutes) and the service that shows it (processor time and calls of a view; each page is asked for every 2 s, and all reports are new).
//
//   node --import tsx bench/dashboard.ts
import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { Reports } from '../src/dashboard/server/reports.js'
import type { Ask } from '../src/dashboard/view.js'
import { DelayQueue, RateLimiter, RedisStore } from '../src/index.js'
import { RedisCluster } from '../test/support/redis-cluster.js'
import { RedisServer } from '../test/support/redis-server.js'
import { chosenEffort } from './contest/effort.js'
import { progress } from './contest/progress.js'
import { tableText } from './contest/table.js'
import { Fleet, LIMITS, PROCESSES } from './dashboard/fleet.js'
import { ViewCosts } from './dashboard/views.js'

const VIEWS = chosenEffort().name === 'quick' ? 5 : 12
const REFRESHES = chosenEffort().name === 'quick' ? 3 : 20
const MOST_CPU_MS = 40
const QUEUES = 60
const CLUSTER_LIMITS = 300

const SENT = /cmdstat_(?:hgetall|evalsha|eval):calls=(\d+),usec=(\d+)/g
const stats = async (client: Redis) => [...(await client.info('commandstats')).matchAll(SENT)]
/** Server time of the commands that were sent, not of those that scripts run: in µs. A script's own time holds that of its commands. */
const serverTime = async () => (await stats(client)).reduce((sum, [, , us]) => sum + Number(us), 0)
const callsOf = async (client: Redis) => (await stats(client)).reduce((sum, [, calls]) => sum + Number(calls), 0)

const redis = await RedisServer.start()
const client = redis.client()
const fleet = new Fleet(client)
await fleet.fill()
const before = await serverTime()
await fleet.report()
const reportUs = (await serverTime()) - before

const reports = new Reports(client, 'spillway')
// The script is compiled once for a server, not once for a page.
await new Reports(client, 'other').refresh()
await client.config('RESETSTAT')
await reports.refresh()
const firstMs = (await serverTime()) / 1000
if (reports.processes.length < PROCESSES || reports.entries.size !== LIMITS) throw new Error('not all was read')
await client.config('RESETSTAT')
for (let i = 0; i < REFRESHES; i++) {
  await sleep(2000)
  await reports.refresh()
}
const refreshMs = (await serverTime()) / 1000 / REFRESHES
console.log(
  tableText({
    caption: `Dashboard: Redis server time, ${PROCESSES} processes, ${LIMITS} limits`,
    head: ['', 'ms', 'of its bound'],
    rows: [
      ['first load', firstMs.toFixed(2), ratio(firstMs, 20)],
      [`a refresh, mean of ${REFRESHES}`, refreshMs.toFixed(3), ratio(refreshMs, 1)],
      [
        'a report of 5 limits and 100 keys',
        (reportUs / PROCESSES / 1000).toFixed(3),
        ratio(reportUs / PROCESSES / 1000, 1),
      ],
    ],
  }),
)

const queues = Array.from({ length: QUEUES }, (_, i) => new DelayQueue<string>(client, `queue-${i}`))
await Promise.all(queues.map(queue => queue.push('x')))
const defaults = Object.fromEntries(Array.from({ length: LIMITS }, (_, i) => [`limiter-${i}`, `${100 + i}/1m`]))
const costs = await ViewCosts.start(
  client,
  defaults,
  () => callsOf(client),
  () => fleet.report(),
)
const rows: string[][] = []
const add = async (what: string, ask: Ask, most: number, of = costs) => {
  const found = await of.of(ask, VIEWS)
  const cpu = found.map(({ cpuMs }) => cpuMs).sort((a, b) => a - b)
  const median = cpu[Math.floor(cpu.length / 2)]
  const worst = cpu[cpu.length - 1]
  const calls = Math.max(...found.map(cost => cost.calls))
  progress(`${what}: ${cpu.map(ms => ms.toFixed(0)).join(' ')} ms, ${calls} calls`)
  rows.push([
    what,
    median.toFixed(1),
    worst.toFixed(1),
    ratio(median, MOST_CPU_MS),
    ratio(worst, MOST_CPU_MS),
    String(calls),
    ratio(calls, most),
  ])
}
// The objects record their existence after ten seconds.
await sleep(10_500)
await add('limits', { page: 'limits' }, 40)
await add('limits, all 1000 rows', { page: 'limits', rows: 1000 }, 40)
await add('processes', { page: 'processes' }, 40)
await add('queues', { page: 'queues' }, 140)
await add('keys', { page: 'keys' }, 40)
await add('a key searched', { page: 'keys', key: '203.0.7.7' }, 140)
costs.stop()
await Promise.all(queues.map(queue => queue.close()))
await redis.stop()

const cluster = await RedisCluster.start()
const many = cluster.client()
await many.ping()
const nodes = cluster.nodes.map(node => node.client())
const clusterFleet = new Fleet(many, CLUSTER_LIMITS)
await clusterFleet.fill()
const limiter = new RateLimiter({ policy: '100/1m', name: 'limiter-0', store: new RedisStore(many), deadline: '5s' })
await limiter.block('203.0.7.7', '1h')
const onCluster = await ViewCosts.start(
  many,
  { 'limiter-0': '100/1m' },
  async () => (await Promise.all(nodes.map(callsOf))).reduce((sum, calls) => sum + calls, 0),
  () => clusterFleet.report(),
)
await add(`keys, cluster of 3, ${CLUSTER_LIMITS} limits`, { page: 'keys' }, 280, onCluster)
await add(`a key searched, cluster of 3, ${CLUSTER_LIMITS} limits`, { page: 'keys', key: '203.0.7.7' }, 400, onCluster)
onCluster.stop()
await cluster.stop()

console.log()
console.log(
  tableText({
    caption: `Dashboard: a view every 2 s, ${PROCESSES} processes, ${LIMITS} limits that refuse, 100 keys a process, ${QUEUES} queues`,
    head: [
      'view',
      'CPU ms, median',
      'worst',
      `median / ${MOST_CPU_MS}`,
      `worst / ${MOST_CPU_MS}`,
      'calls',
      'of the most',
    ],
    rows,
  }),
)

function ratio(value: number, bound: number): string {
  return (value / bound).toFixed(2)
}
