// What a view of each page of the dashboard asks Redis: the calls, by their names, and the server's time for them (INFO
// commandstats; SLOWLOG tells the longest). With 200 processes that report, 1 000 limits, 50 000 leases of 50
// semaphores, and 20 queues. The first view of a dashboard that has just been opened, and those that follow every 2 s.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { dashboard } from '../src/operating/dashboard/index.js'
import type { ViewRequest } from '../src/operating/dashboard/view.js'
import { LuaScript } from '../src/redis/script.js'
import * as scripts from '../src/redis/scripts.js'
import { RedisServer } from '../test/support/redis-server.js'
import type { Effort } from './contest/contest.js'
import { median } from './contest/figures.js'
import { readWork } from './contest/redis-meter.js'
import { type Claim, progress, type Report, runAlone } from './contest/report.js'
import { Crowd, LEASES, QUEUES, SEMAPHORES } from './dashboard/crowd.js'
import { Fleet, LIMITS, PROCESSES } from './dashboard/fleet.js'

const FIRST_PAGE_OBJECTS = 8

const VIEWS: ReadonlyArray<readonly [what: string, ask: ViewRequest]> = [
  ['limits, 15 minutes', { page: 'limits' }],
  ['limits, 24 hours', { page: 'limits', range: '24h' }],
  ['keys', { page: 'keys' }],
  ['a key searched', { page: 'keys', key: '198.51.100.7' }],
  ['waiting', { page: 'waiting' }],
  ['queues', { page: 'queues' }],
  ['a message searched', { page: 'queues', queue: 'queue-0', id: 'none' }],
  ['events', { page: 'events' }],
  ['changes', { page: 'changes' }],
  ['processes', { page: 'processes' }],
]

const SCRIPTS = new Map(
  Object.values(scripts)
    .flatMap(one => (one instanceof LuaScript ? [one] : Object.values(one)))
    .map(({ sha1, name }) => [sha1, name]),
)

/** The calls of one view, by the name of their command or script. */
interface Asked {
  readonly calls: number
  readonly serverMs: number
  readonly longestMs: number
  readonly byName: ReadonlyMap<string, number>
}

interface PageCost {
  readonly what: string
  readonly first: Asked
  readonly later: readonly Asked[]
}

export async function dashboardPages(effort: Effort): Promise<Report> {
  const later = Math.round(5 * effort.stretch)
  const redis = await RedisServer.start({ args: ['--slowlog-log-slower-than', '20', '--slowlog-max-len', '100000'] })
  const admin = redis.client()
  const fleet = new Fleet(admin)
  await fleet.fill()
  await fleet.report()
  const crowd = new Crowd(admin)
  await crowd.fill()
  await crowd.happen(fleet.keys.events, fleet.keys.changes)
  // Objects record their existence ten seconds after they were built, once somebody has opened a dashboard.
  await new Page(admin, crowd, { page: 'limits' }).view()
  await sleep(10_500)
  // The server compiles each script once.
  for (const [, ask] of VIEWS) await new Page(admin, crowd, ask).view()
  const costs: PageCost[] = []
  for (const [what, ask] of VIEWS) {
    progress(`dashboard: ${what}`)
    // Of its own: nothing has been asked for by another page.
    const page = new Page(redis.client(), crowd, ask)
    const views: Asked[] = []
    for (let i = 0; i <= later; i++) {
      if (i > 0) await sleep(2000)
      await fleet.report()
      views.push(await askedBy(admin, page))
    }
    costs.push({ what, first: views[0], later: views.slice(1) })
    page.client.disconnect()
  }
  await crowd.close()
  await redis.stop()
  return {
    title: 'Pages of the dashboard',
    method:
      `${PROCESSES} processes that report, ${LIMITS} limits, ${LEASES} leases of ${SEMAPHORES} semaphores, ${QUEUES} queues with dead letters. ` +
      'Calls of Redis, and its time for them (INFO commandstats; the longest by SLOWLOG): of the first view of a dashboard that was just opened, and of the views that follow every 2 s.',
    tables: [
      {
        caption: 'First view',
        head: ['page', 'calls', 'ms of Redis', 'the longest call', 'which'],
        rows: costs.map(({ what, first }) => [
          what,
          String(first.calls),
          first.serverMs.toFixed(2),
          first.longestMs.toFixed(2),
          [...first.byName].map(([name, count]) => `${name} ${count}`).join(', '),
        ]),
      },
      {
        caption: 'Views that follow',
        head: ['page', 'calls, most', 'ms of Redis, median', 'worst'],
        rows: costs.map(({ what, later }) => [
          what,
          String(Math.max(...later.map(({ calls }) => calls))),
          median(later.map(({ serverMs }) => serverMs)).value.toFixed(2),
          Math.max(...later.map(({ serverMs }) => serverMs)).toFixed(2),
        ]),
      },
    ],
    claims: [
      oneCall(costs, 'waiting', 'semaphore_look', SEMAPHORES),
      oneCall(costs, 'queues', 'queue_look', QUEUES),
      oneCall(costs, 'limits, 15 minutes', 'semaphore_look', FIRST_PAGE_OBJECTS),
      oneCall(costs, 'limits, 15 minutes', 'queue_look', QUEUES),
    ],
  }
}

/** docs/dashboard.md: one call for each object on the page, and one for each other queue. */
function oneCall(costs: readonly PageCost[], page: string, script: string, objects: number): Claim {
  const { first, later } = costs.find(({ what }) => what === page)!
  const most = Math.max(...[first, ...later].map(({ byName }) => byName.get(script) ?? 0))
  return {
    text: `dashboard, ${page}: calls of ${script} in a view`,
    bound: 'at most',
    target: objects,
    unit: 'calls',
    measured: { value: most, low: most, high: most },
  }
}

/** One page in a tab of its own, and what was sent for it. */
class Page {
  readonly sent: Array<readonly [command: string, script: string | undefined]> = []
  readonly #handler: (request: Request) => Promise<Response>
  readonly #request: () => Request

  constructor(
    readonly client: Redis,
    crowd: Crowd,
    ask: ViewRequest,
  ) {
    const send = client.sendCommand.bind(client)
    client.sendCommand = (command, ...rest) => {
      this.sent.push([command.name, SCRIPTS.get(String(command.args[0]))])
      return send(command, ...rest)
    }
    this.#handler = dashboard({ client, live: crowd.live, authorize: () => 'write' })
    const field = Buffer.from(JSON.stringify(ask)).toString('base64url')
    this.#request = () => new Request('http://127.0.0.1/view', { headers: { 'x-spillway-request': field } })
  }

  async view(): Promise<void> {
    const reply = await this.#handler(this.#request())
    if (reply.status !== 200) throw new Error(`${reply.status} ${await reply.text()}`)
  }
}

type LogRow = [number: number, at: number, us: number, words: string[]]

async function askedBy(admin: Redis, page: Page): Promise<Asked> {
  page.sent.length = 0
  await admin.config('RESETSTAT')
  await admin.slowlog('RESET')
  await page.view()
  const log = (await admin.slowlog('GET', -1)) as LogRow[]
  const work = await readWork(admin)
  const commands = countsOf(page.sent.map(([command]) => command))
  let micros = 0
  // Scripts run some of these commands, too: the time of those is in the time of the script.
  for (const [command, count] of commands) micros += (work.micros(command) * count) / Math.max(1, work.calls(command))
  return {
    calls: page.sent.length,
    serverMs: micros / 1000,
    longestMs: Math.max(0, ...log.map(([, , us]) => us)) / 1000,
    byName: countsOf(page.sent.map(([command, script]) => script ?? command)),
  }
}

function countsOf(names: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1)
  return counts
}

await runAlone(import.meta, dashboardPages)
