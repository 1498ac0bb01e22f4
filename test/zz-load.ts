import { detailsText } from '../src/dashboard/details.js'
import { limitFacts, limitId } from '../src/dashboard/facts.js'
import { RecordKeys, stepOf } from '../src/dashboard/record-keys.js'
import { Picture } from '../src/dashboard/server/picture.js'
import { parsePolicy } from '../src/index.js'
import { portOf } from '../src/redis/port-of.js'
import { runScript } from '../src/redis/run-script.js'
import { dashboardReport } from '../src/redis/scripts.js'
import { RedisServer } from './support/redis-server.js'

const server = await RedisServer.start()
const client = server.client()
const port = portOf(client, 'x')
const keys = new RecordKeys('spillway')
const limits = Array.from({ length: 1000 }, (_, i) => {
  const [limit] = parsePolicy(`${100 + i}/1m`)
  const limiter = `limiter-${i}`
  return {
    id: limitId(limiter, limit),
    facts: JSON.stringify(limitFacts(limiter, limit, { per: 'per address', store: 'redis' })),
  }
})
const now = Date.now()
let n = 0
const usec = async (_: string) => {
  const info = await client.info('commandstats')
  let c = 0,
    u = 0
  for (const m of info.matchAll(/cmdstat_(hgetall|eval|evalsha):calls=(\d+),usec=(\d+)/g)) {
    c += Number(m[2])
    u += Number(m[3])
  }
  return [c, u]
}
for (let step = stepOf(now) - 89; step <= stepOf(now); step++) {
  for (let from = 0; from < 1000; from += 250) {
    const rows = limits.slice(from, from + 250)
    await runScript(
      port,
      dashboardReport,
      [...keys.processes, keys.sums(step), ...keys.index],
      [
        String(++n),
        String(step),
        'p0',
        '{}',
        '',
        '250',
        ...rows.flatMap(({ id }) => [id, '12345,123,0,0,11222,0,1246,0']),
        '86400000',
        '10000',
        ...(step === stepOf(now) ? rows.slice(0, 250).flatMap(({ id, facts }) => [id, facts]) : []),
      ],
    )
  }
}
console.log('report', await usec('evalsha'), await usec('eval'))
for (let p = 0; p < 200; p++) {
  const details = detailsText({
    keys: new Map(
      limits
        .slice(p * 5, p * 5 + 5)
        .map((_, i) => [
          `limiter-${p * 5 + i}`,
          Array.from({ length: 20 }, (_, k) => [`203.0.${p}.${k}`, 100, 10] as const),
        ]),
    ),
    deliveries: [],
    levels: [],
  })
  const record = JSON.stringify({
    service: 'api',
    version: '1.2.3',
    host: 'web-1234',
    pid: 1234,
    startedAt: now,
    everyMs: 2000,
    perSecond: 123.4,
    answerMs: 0.4,
  })
  const before = await usec('evalsha')
  await runScript(
    port,
    dashboardReport,
    [...keys.processes, keys.sums(stepOf(now)), ...keys.index],
    [
      String(++n),
      String(stepOf(now)),
      `process${p}`,
      record,
      details,
      '5',
      ...limits.slice(p * 5, p * 5 + 5).flatMap(({ id }) => [id, '12345,123,0,0,11222,0,1246,0']),
      '86400000',
      '10000',
    ],
  )
  if (p === 100) {
    const after = await usec('evalsha')
    console.log('one report of 5 rows, us', after[1] - before[1])
  }
}
await client.config('RESETSTAT')
const picture = new Picture(client, 'spillway')
const at = performance.now()
await picture.refresh()
console.log(
  'first load ms wall',
  performance.now() - at,
  'server us',
  await usec(''),
  picture.processes.length,
  picture.entries.size,
  picture.failing,
)
for (let r = 0; r < 20; r++) {
  await new Promise(r => setTimeout(r, 2000))
  if (r === 0) await client.config('RESETSTAT')
  await picture.refresh()
}
const [calls, us] = await usec('evalsha')
console.log('refresh mean us', us / 20, calls)
await server.stop()
