// What the dashboard costs at its documented size, 200 processes with 1 000 limits in all: Redis (server time by INFO
// commandstats, of 15 minutes) and the service that shows it (processor time and calls of a view; each page is asked
// for every 2 s, and all reports are new).
import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { DelayQueue, RateLimiter, RedisStore } from '../src/index.js'
import { FleetReports } from '../src/operating/dashboard/server/fleet-reports.js'
import type { ViewRequest } from '../src/operating/dashboard/view.js'
import { RedisCluster } from '../test/support/redis-cluster.js'
import { RedisServer } from '../test/support/redis-server.js'
import type { Effort } from './contest/contest.js'
import { type Median, median } from './contest/figures.js'
import { type Claim, progress, type Report, runAlone } from './contest/report.js'
import { Fleet, LIMITS, PROCESSES } from './dashboard/fleet.js'
import { ViewCosts } from './dashboard/views.js'

const QUEUES = 60
const CLUSTER_LIMITS = 300
const SENT = /cmdstat_(?:hgetall|evalsha|eval):calls=(\d+),usec=(\d+)/g

/** The page, what is asked for, and the most calls of Redis that it may take. */
type View = readonly [what: string, ask: ViewRequest, mostCalls: number]

const VIEWS: readonly View[] = [
  ['limits', { page: 'limits' }, 40],
  ['limits, all 1000 rows', { page: 'limits', rows: 1000 }, 40],
  ['processes', { page: 'processes' }, 40],
  ['queues', { page: 'queues' }, 140],
  ['keys', { page: 'keys' }, 40],
  ['a key searched', { page: 'keys', key: '203.0.7.7' }, 90],
]
const ON_CLUSTER: readonly View[] = [
  [`keys, cluster of 3, ${CLUSTER_LIMITS} limits`, { page: 'keys' }, 280],
  [`a key searched, cluster of 3, ${CLUSTER_LIMITS} limits`, { page: 'keys', key: '203.0.7.7' }, 330],
]

interface Found {
  readonly view: View
  readonly cpuMs: Median
  readonly worstMs: number
  readonly calls: number
}

export async function dashboard(effort: Effort): Promise<Report> {
  const views = Math.round(12 * effort.stretch)
  const redis = await RedisServer.start()
  const client = redis.client()
  const fleet = new Fleet(client)
  await fleet.fill()
  const server = await serverTimes(client, fleet, Math.round(20 * effort.stretch))
  const found = [...(await onOneServer(client, fleet, views)), ...(await onCluster(views))]
  await redis.stop()
  return {
    title: 'Dashboard',
    method:
      `${PROCESSES} processes with ${LIMITS} limits in all, each of which refuses, 100 keys a process, ${QUEUES} queues. A view every 2 s by a viewer in a process of its own; ` +
      'before each, every process has reported.',
    tables: [
      {
        caption: 'Redis server time',
        head: ['', 'ms', 'of its bound'],
        rows: server.map(([what, ms, most]) => [what, ms.toFixed(3), (ms / most).toFixed(2)]),
      },
      {
        caption: 'A view',
        head: ['view', 'CPU ms, median', 'worst', 'calls of Redis', 'of the most'],
        rows: found.map(({ view: [what, , most], cpuMs, worstMs, calls }) => [
          what,
          cpuMs.value.toFixed(1),
          worstMs.toFixed(1),
          String(calls),
          (calls / most).toFixed(2),
        ]),
      },
    ],
    claims: found.slice(0, VIEWS.length).map(
      ({ view: [what], cpuMs }): Claim => ({
        text: `dashboard, ${what}: processor time of a view, ${LIMITS} limits × ${PROCESSES} processes`,
        bound: 'at most',
        target: 40,
        unit: 'ms',
        measured: cpuMs,
      }),
    ),
  }
}

/** Server time in ms, and its bound. */
async function serverTimes(
  client: Redis,
  fleet: Fleet,
  refreshes: number,
): Promise<Array<readonly [what: string, ms: number, most: number]>> {
  const before = await serverMs(client)
  await fleet.report()
  const reportMs = (await serverMs(client)) - before
  const reports = new FleetReports(client, 'spillway')
  // The script is compiled once for a server, not once for a page.
  await new FleetReports(client, 'other').refresh()
  await client.config('RESETSTAT')
  await reports.refresh()
  const firstMs = await serverMs(client)
  if (reports.processes.length < PROCESSES || reports.entries.size !== LIMITS) throw new Error('not all was read')
  await client.config('RESETSTAT')
  for (let i = 0; i < refreshes; i++) {
    await sleep(2000)
    await reports.refresh()
  }
  return [
    ['first load', firstMs, 20],
    [`a refresh, mean of ${refreshes}`, (await serverMs(client)) / refreshes, 1],
    ['a report of 5 limits and 100 keys', reportMs / PROCESSES, 1],
  ]
}

async function onOneServer(client: Redis, fleet: Fleet, views: number): Promise<Found[]> {
  const queues = Array.from({ length: QUEUES }, (_, i) => new DelayQueue<string>(client, `queue-${i}`))
  await Promise.all(queues.map(queue => queue.push('x')))
  const defaults = Object.fromEntries(Array.from({ length: LIMITS }, (_, i) => [`limiter-${i}`, `${100 + i}/1m`]))
  const costs = await ViewCosts.start(
    client,
    defaults,
    () => callsOf(client),
    () => fleet.report(),
  )
  // The objects record their existence after ten seconds.
  await sleep(10_500)
  const found = await costsOf(costs, VIEWS, views)
  await Promise.all(queues.map(queue => queue.close()))
  return found
}

async function onCluster(views: number): Promise<Found[]> {
  const cluster = await RedisCluster.start()
  const client = cluster.client()
  await client.ping()
  const nodes = cluster.nodes.map(node => node.client())
  const fleet = new Fleet(client, CLUSTER_LIMITS)
  await fleet.fill()
  const limiter = new RateLimiter({
    policy: '100/1m',
    name: 'limiter-0',
    store: new RedisStore(client),
    deadline: '5s',
  })
  await limiter.block('203.0.7.7', '1h')
  const costs = await ViewCosts.start(
    client,
    { 'limiter-0': '100/1m' },
    async () => (await Promise.all(nodes.map(callsOf))).reduce((sum, calls) => sum + calls, 0),
    () => fleet.report(),
  )
  const found = await costsOf(costs, ON_CLUSTER, views)
  await cluster.stop()
  return found
}

async function costsOf(costs: ViewCosts, views: readonly View[], times: number): Promise<Found[]> {
  const found: Found[] = []
  for (const view of views) {
    progress(`dashboard: ${view[0]}`)
    const each = await costs.of(view[1], times)
    const cpu = each.map(({ cpuMs }) => cpuMs)
    const calls = Math.max(...each.map(cost => cost.calls))
    found.push({ view, cpuMs: median(cpu), worstMs: Math.max(...cpu), calls })
  }
  costs.stop()
  return found
}

async function stats(client: Redis) {
  return [...(await client.info('commandstats')).matchAll(SENT)]
}

/**
 * Server time of the commands that were sent, not of those that scripts run: a script's own time holds that of its
 * commands.
 */
async function serverMs(client: Redis): Promise<number> {
  return (await stats(client)).reduce((sum, [, , us]) => sum + Number(us) / 1000, 0)
}

async function callsOf(client: Redis): Promise<number> {
  return (await stats(client)).reduce((sum, [, calls]) => sum + Number(calls), 0)
}

await runAlone(import.meta, dashboard)
