// Requests a second of an Express and a Koa service with a limiter in front, against the same service without one.
import { RedisServer } from '../test/support/redis-server.js'
import type { Claim } from './contest/claim.js'
import { type Contender, ContenderProcess, withProcess } from './contest/contender.js'
import { contest, type Turns } from './contest/contest.js'
import type { Effort } from './contest/effort.js'
import { figure, spread } from './contest/figure.js'
import { medianOf, ratio } from './contest/median.js'
import { progress } from './contest/progress.js'
import { readWork } from './contest/redis-meter.js'
import { type Report, runAlone } from './contest/report.js'
import type { Table } from './contest/table.js'
import { statusesInTurn } from './contest/web-client.js'
import { type Framework, service } from './contest/web-service.js'

interface Load {
  readonly requests: number
  readonly ms: number
  readonly cpuUs: number
}

/** What clients got, and the processor time of a request: of the service, of Redis and of the clients. */
interface Turn extends Load {
  readonly serviceCpu: number
  readonly redisCpu: number
  readonly loadCpu: number
}

const CONNECTIONS = 50
const BARE = 'bare'
const BY_HAND = 'fields by hand'
const TARGETS = { express: { memory: 0.95, redis: 0.88 }, koa: { memory: 0.9, redis: 0.8 } }

const perSecond = ({ requests, ms }: Turn) => (requests / ms) * 1000
const serviceCpu = (turn: Turn) => turn.serviceCpu

export async function http(effort: Effort): Promise<Report> {
  const redis = await RedisServer.start()
  try {
    await check(redis)
    const express = await measure('express', redis, effort)
    const koa = await measure('koa', redis, effort)
    return {
      title: 'Over HTTP',
      method:
        `"hello" from Express 5 and Koa 3, ${CONNECTIONS} connections with one request each under way, all allowed, headers on (draft 8 and ` +
        'legacy where the limiter knows them), keys by address. Clients, service and Redis are three processes of one machine; the clients ' +
        'are a few lines over sockets, so that the service is what is busy. The ratio of the processor time that the service spends on a ' +
        'request says the same, and suffers less from company on the machine.',
      tables: [table('Express', express), table('Koa', koa)],
      claims: [...claims('Express', TARGETS.express, express), byHand(express), ...claims('Koa', TARGETS.koa, koa)],
    }
  } finally {
    await redis.stop()
  }
}

function contenders(framework: Framework, redis: RedisServer, quota?: number): Contender[] {
  const limited = ['spillway', framework === 'express' ? 'express-rate-limit' : 'koa-ratelimit'].flatMap(limiter => [
    service(framework, limiter, { quota }),
    service(framework, limiter, { quota, redisPort: redis.port }),
  ])
  if (quota !== undefined) return limited
  const byHand = framework === 'express' ? [service(framework, BY_HAND)] : []
  return [service(framework), ...byHand, ...limited]
}

async function check(redis: RedisServer): Promise<void> {
  progress('over HTTP: does every contender limit?')
  const client = redis.client()
  for (const contender of [...contenders('express', redis, 5), ...contenders('koa', redis, 5)]) {
    await client.flushall()
    const statuses = await withProcess(contender, async child => statusesInTurn(await child.ask('port'), 10))
    const expected = [200, 200, 200, 200, 200, 429, 429, 429, 429, 429]
    if (statuses.join() !== expected.join()) throw new Error(`${contender.name} answered ${statuses} at quota 5`)
  }
  client.disconnect()
}

async function measure(framework: Framework, redis: RedisServer, effort: Effort): Promise<Turns<Turn>> {
  progress(`over HTTP: ${framework}`)
  const client = redis.client()
  await client.flushall()
  const clients = new ContenderProcess({ name: 'the clients', file: 'load.mjs', setup: { connections: CONNECTIONS } })
  const load = async (child: ContenderProcess, until: { ms?: number; count?: number }) =>
    clients.ask<Load>('load', { port: await child.ask<number>('port'), ...until })
  try {
    return await contest<Turn>(contenders(framework, redis), effort, {
      // Counted, because the optimising compiler counts too: the slower a service, the longer it would stay cold.
      warmUp: child => load(child, { count: 25_000 }),
      turn: async child => {
        // A service that has waited for its turn is slow at first, and not every turn was waited for equally long.
        await load(child, { ms: 300 })
        const redisBefore = await readWork(client)
        const cpuBefore = await child.ask<number>('cpu')
        const turn = await load(child, { ms: 1000 * effort.stretch })
        const each = (cpuUs: number) => cpuUs / turn.requests
        return {
          ...turn,
          serviceCpu: each((await child.ask<number>('cpu')) - cpuBefore),
          redisCpu: each((await readWork(client)).cpuUs - redisBefore.cpuUs),
          loadCpu: each(turn.cpuUs),
        }
      },
    })
  } finally {
    await clients.end()
    client.disconnect()
  }
}

function table(framework: string, turns: Turns<Turn>): Table {
  return {
    caption: `${framework}, ${CONNECTIONS} connections`,
    head: ['limiter', 'requests/s', '÷ bare', 'service CPU µs', 'bare ÷ that', 'Redis CPU µs', 'clients CPU µs'],
    rows: [...turns.keys()].map(name => {
      const bare = name === BARE
      return [
        name,
        figure(medianOf(turns, name, perSecond).value),
        bare ? '1' : spread(ratio(turns, name, BARE, perSecond)),
        figure(medianOf(turns, name, serviceCpu).value),
        bare ? '1' : spread(ratio(turns, name, BARE, turn => 1 / turn.serviceCpu)),
        name.includes('Redis') ? figure(medianOf(turns, name, turn => turn.redisCpu).value) : '',
        figure(medianOf(turns, name, turn => turn.loadCpu).value),
      ]
    }),
  }
}

function claims(framework: string, targets: { memory: number; redis: number }, turns: Turns<Turn>): Claim[] {
  const claim = (name: string, target: number): Claim => ({
    text: `${framework}, ${name}: requests/s ÷ bare`,
    bound: 'at least',
    target,
    measured: ratio(turns, name, BARE, perSecond),
  })
  return [claim('spillway in memory', targets.memory), claim('spillway on Redis', targets.redis)]
}

/** What deciding costs beside writing the header fields. */
function byHand(turns: Turns<Turn>): Claim {
  return {
    text: `Express, spillway in memory: service CPU ÷ that of ${BY_HAND}`,
    bound: 'at most',
    target: 1.05,
    measured: ratio(turns, 'spillway in memory', BY_HAND, serviceCpu),
  }
}

await runAlone(import.meta, http)
