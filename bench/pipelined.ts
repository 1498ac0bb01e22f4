// Ten requests in one TCP segment at quota 5: how many pass? They are decided at the same instant, before any is
// answered.
import { RedisServer } from '../test/support/redis-server.js'
import { withProcess } from './contest/contest.js'
import { single } from './contest/figures.js'
import { type Claim, progress, type Report, runAlone } from './contest/report.js'
import { type Framework, service, statusesAtOnce } from './contest/web.js'

const QUOTA = 5
const REQUESTS = 10
const LIMITERS: Partial<Record<Framework, string[]>> = {
  express: ['spillway', 'express-rate-limit'],
  koa: ['spillway', 'koa-ratelimit'],
}

export async function pipelined(): Promise<Report> {
  progress('over HTTP: pipelined requests')
  const redis = await RedisServer.start()
  const client = redis.client()
  const rows: string[][] = []
  const claims: Claim[] = []
  try {
    for (const framework of ['express', 'koa'] as const) {
      for (const limiter of LIMITERS[framework] ?? []) {
        for (const redisPort of [undefined, redis.port]) {
          await client.flushall()
          const contender = service(framework, limiter, { quota: QUOTA, redisPort })
          const statuses = await withProcess(contender, async child =>
            statusesAtOnce(await child.ask<number>('port'), REQUESTS),
          )
          const passed = statuses.filter(status => status === 200).length
          const name = `${framework === 'express' ? 'Express' : 'Koa'}, ${contender.name}`
          rows.push([name, String(passed), String(statuses.filter(status => status === 429).length)])
          if (limiter !== 'spillway') continue
          const text = `${name}: passed of ${REQUESTS} requests in one segment`
          claims.push({ text, bound: 'exactly', target: QUOTA, measured: single(passed), unit: 'requests' })
        }
      }
    }
  } finally {
    await redis.stop()
  }
  return {
    title: 'Ten requests in one TCP segment',
    method: `One connection, one write of ${REQUESTS} requests, quota ${QUOTA}.`,
    tables: [{ caption: `Quota ${QUOTA}`, head: ['limiter', 'passed', 'refused (429)'], rows }],
    claims,
  }
}

await runAlone(import.meta, pipelined)
