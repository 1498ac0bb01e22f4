// What the dashboard costs Redis: 200 processes with 1 000 limits in all, 15 minutes of them. Server time by INFO commandstats.
//
//   node --import tsx bench/dashboard.ts
import { detailsText } from '../src/dashboard/process-details.js'
import { RecordKeys, stepOf } from '../src/dashboard/record-keys.js'
import { Reports } from '../src/dashboard/server/reports.js'
import { parsePolicy } from '../src/index.js'
import { limitFacts, limitId } from '../src/redis/object-index.js'
import { portOf } from '../src/redis/port-of.js'
import { runScript } from '../src/redis/run-script.js'
import { dashboardReport } from '../src/redis/scripts.js'
import { RedisServer } from '../test/support/redis-server.js'

const PROCESSES = 200
const LIMITS = 1000
const REFRESHES = 20
const ROWS = 250
const COUNTS = '12345,123,0,0,11222,0,1246,0'

const redis = await RedisServer.start()
const client = redis.client()
const port = portOf(client, 'bench')
const keys = new RecordKeys('spillway')
const limits = Array.from({ length: LIMITS }, (_, i) => {
  const [limit] = parsePolicy(`${100 + i}/1m`)
  const facts = limitFacts(`limiter-${i}`, limit, { per: 'per address', store: 'redis' })
  return { id: limitId(`limiter-${i}`, limit), facts: JSON.stringify(facts) }
})

/** Server time of the commands that were sent, not of those that scripts run: in µs. */
async function serverTime(): Promise<number> {
  const stats = await client.info('commandstats')
  // A script's own time holds that of its commands; hgetall is sent by itself only.
  return [...stats.matchAll(/cmdstat_(?:hgetall|evalsha|eval):calls=\d+,usec=(\d+)/g)].reduce(
    (sum, [, us]) => sum + Number(us),
    0,
  )
}

let number = 0
const report = (
  step: number,
  process: string,
  rows: typeof limits,
  record: object,
  details: string,
  notes: typeof limits,
) =>
  runScript(
    port,
    dashboardReport,
    [...keys.processes, keys.sums(step), keys.sums(0, 60_000), keys.sums(0, 600_000), ...keys.index],
    [
      String(++number),
      String(step),
      process,
      JSON.stringify(record),
      details,
      String(rows.length),
      ...rows.flatMap(({ id }) => [id, COUNTS]),
      '0',
      '0',
      '86400000',
      '10000',
      ...notes.flatMap(({ id, facts }) => [id, facts]),
    ],
  )

const last = stepOf(Date.now())
for (let step = last - 89; step <= last; step++) {
  for (let i = 0; i < LIMITS; i += ROWS) {
    const rows = limits.slice(i, i + ROWS)
    await report(step, 'first', rows, {}, '', step === last ? rows : [])
  }
}
const own = LIMITS / PROCESSES
const before = await serverTime()
for (let i = 0; i < PROCESSES; i++) {
  const rows = limits.slice(i * own, i * own + own)
  const keysOf = rows.map(
    (_, j) =>
      [
        `limiter-${i * own + j}`,
        Array.from({ length: 20 }, (_, k) => [`203.0.113.${k}`, 10.25, 1.5] as const),
      ] as const,
  )
  const record = {
    service: `service-${i % 8}`,
    version: '1.2.3',
    host: `web-${i}`,
    pid: 4000 + i,
    startedAt: Date.now(),
    everyMs: 2000,
    perSecond: 123.4,
    answerMs: 0.4,
  }
  await report(
    last,
    `process-${i}`,
    rows,
    record,
    detailsText({ keys: new Map(keysOf), deliveries: [], levels: [] }),
    [],
  )
}
console.log(`a report of ${own} limits: ${((await serverTime()) - before) / PROCESSES} µs of server time`)

const reports = new Reports(client, 'spillway')
// The script is compiled once for a server, not once for a page.
await new Reports(client, 'other').refresh()
await client.config('RESETSTAT')
await reports.refresh()
const firstMs = (await serverTime()) / 1000
if (reports.processes.length !== PROCESSES || reports.entries.size !== LIMITS) throw new Error('not all was read')
console.log(`first load: ${firstMs.toFixed(2)} ms of server time (bar: 20)`)

await client.config('RESETSTAT')
for (let i = 0; i < REFRESHES; i++) {
  await new Promise(resolve => setTimeout(resolve, 2000))
  await reports.refresh()
}
console.log(
  `a refresh: ${((await serverTime()) / 1000 / REFRESHES).toFixed(3)} ms of server time, mean of ${REFRESHES} (bar: 1)`,
)
await redis.stop()
