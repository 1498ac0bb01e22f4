// What a limiter costs a web service of each framework, against the same service without one, against the header fields
// alone and against the limiter that the framework's users have today.
import type { HeaderForm } from '../src/http/headers.js'
import { RedisServer } from '../test/support/redis-server.js'
import { type Contender, ContenderProcess, contest, type Effort, type Turns, withProcess } from './contest/contest.js'
import { ratio, rowsOf, type Table } from './contest/figures.js'
import { readWork } from './contest/redis-meter.js'
import { type Claim, progress, type Report, runAlone } from './contest/report.js'
import { BARE, BY_HAND, type Framework, INCR_BY_HAND, service, statusesInTurn } from './contest/web.js'

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

/** A framework, and what is claimed of it. */
interface Subject {
  readonly name: string
  readonly framework: Framework
  /** The limiter that its users have today. */
  readonly peer?: string
  /** Whether the peer is measured on Redis, too. */
  readonly peerOnRedis?: boolean
  /** The form with as many header fields as the peer has; absent where that is the default. */
  readonly peerForm?: HeaderForm
  /** Processor time of the service ÷ that of the same with the fields set by hand, at most. */
  readonly byHand: number
  /** Requests a second ÷ those of the bare service, at least. */
  readonly bare?: { readonly memory: number; readonly redis: number }
}

const SUBJECTS: readonly Subject[] = [
  {
    name: 'Express 5',
    framework: 'express',
    peer: 'express-rate-limit',
    peerOnRedis: true,
    byHand: 1.05,
    bare: { memory: 0.95, redis: 0.88 },
  },
  {
    name: 'Koa 3',
    framework: 'koa',
    peer: 'koa-ratelimit',
    peerOnRedis: true,
    peerForm: 'legacy',
    byHand: 1.15,
    bare: { memory: 0.9, redis: 0.8 },
  },
  { name: 'Fastify 5', framework: 'fastify', peer: '@fastify/rate-limit', peerForm: 'legacy', byHand: 1.15 },
  { name: 'Hono 4', framework: 'hono', peer: 'hono-rate-limiter', peerForm: 'draft-6', byHand: 1.15 },
  { name: 'NestJS 12', framework: 'nest', peer: '@nestjs/throttler', peerForm: 'legacy', byHand: 1.15 },
  { name: 'node:http', framework: 'node', byHand: 1.15 },
  { name: 'fetch', framework: 'fetch', byHand: 1.15 },
]

const CONNECTIONS = 50
/**
 * So short that what else happens on the machine meets neighbours alike, and so many of them that a few odd ones do not
 * matter.
 */
const TURN_MS = 250
const ROUNDS_STRETCH = 2
const OURS = 'spillway in memory'
const OURS_ON_REDIS = 'spillway on Redis'

const perSecond = ({ requests, ms }: Turn) => (requests / ms) * 1000
const serviceCpu = (turn: Turn) => turn.serviceCpu

export async function http(effort: Effort): Promise<Report> {
  const redis = await RedisServer.start()
  try {
    const tables: Table[] = []
    const claims: Claim[] = []
    for (const subject of SUBJECTS) {
      await check(subject, redis)
      const turns = await measure(subject, redis, effort)
      tables.push(table(subject, turns))
      claims.push(...claimsOf(subject, turns))
    }
    return {
      title: 'Over HTTP',
      method:
        `"hello" from each framework, ${CONNECTIONS} connections with one request each under way, all allowed, keys by address, headers on: spillway and ` +
        `"${BY_HAND}" set those of draft 8 and legacy, five fields; where the framework's own limiter sets fewer, spillway stands beside it with ` +
        `as many. spillway has the algorithm that it has by default, and a fixed window, as peers have, where it says so. "${INCR_BY_HAND}" awaits one INCR for each request before that: the least that a limiter can cost which asks Redis for each request by itself. ` +
        'NestJS runs on Express; fetch is a plain function from Request to Response behind @hono/node-server, as is Hono. Clients, service and Redis are three processes ' +
        'of one machine; the clients are a few lines over sockets, so that the service is what is busy. The ratio of the processor time that the ' +
        'service spends on a request suffers less from company on the machine than that of the requests a second.',
      tables,
      claims,
    }
  } finally {
    await redis.stop()
  }
}

function contenders(
  { framework, peer, peerOnRedis, peerForm, bare }: Subject,
  redis: RedisServer,
  quota?: number,
): Contender[] {
  const redisPort = redis.port
  return [
    ...(quota === undefined ? [service(framework), service(framework, BY_HAND)] : []),
    ...(quota === undefined && bare !== undefined ? [service(framework, INCR_BY_HAND, { redisPort })] : []),
    service(framework, 'spillway', { quota }),
    service(framework, 'spillway', { quota, algorithm: 'fixed-window' }),
    service(framework, 'spillway', { quota, redisPort }),
    service(framework, 'spillway', { quota, redisPort, algorithm: 'fixed-window' }),
    ...(peerForm === undefined ? [] : [service(framework, 'spillway', { quota, headers: [peerForm] })]),
    ...(peer === undefined ? [] : [service(framework, peer, { quota })]),
    ...(peer !== undefined && peerOnRedis ? [service(framework, peer, { quota, redisPort })] : []),
  ]
}

async function check(subject: Subject, redis: RedisServer): Promise<void> {
  progress(`over HTTP: ${subject.name}: does every contender limit?`)
  const client = redis.client()
  for (const contender of contenders(subject, redis, 5)) {
    await client.flushall()
    const statuses = await withProcess(contender, async child => statusesInTurn(await child.ask('port'), 10))
    const expected = [200, 200, 200, 200, 200, 429, 429, 429, 429, 429]
    if (statuses.join() !== expected.join()) throw new Error(`${contender.name} answered ${statuses} at quota 5`)
  }
  client.disconnect()
}

async function measure(subject: Subject, redis: RedisServer, effort: Effort): Promise<Turns<Turn>> {
  progress(`over HTTP: ${subject.name}`)
  const client = redis.client()
  await client.flushall()
  const clients = new ContenderProcess({ name: 'the clients', file: 'load.mjs', setup: { connections: CONNECTIONS } })
  const load = async (child: ContenderProcess, until: { ms?: number; count?: number }) =>
    clients.ask<Load>('load', { port: await child.ask<number>('port'), ...until })
  try {
    const rounds = effort.rounds * ROUNDS_STRETCH
    return await contest<Turn>(
      contenders(subject, redis),
      { ...effort, rounds },
      {
        // Counted, because the optimising compiler counts too: the slower a service, the longer it would stay cold.
        warmUp: child => load(child, { count: 20_000 }),
        turn: async child => {
          // A service that has waited for its turn is slow at first, and not every turn was waited for equally long.
          await load(child, { ms: 60 })
          const redisBefore = await readWork(client)
          const cpuBefore = await child.ask<number>('cpu')
          const turn = await load(child, { ms: TURN_MS * effort.stretch })
          const each = (cpuUs: number) => cpuUs / turn.requests
          return {
            ...turn,
            serviceCpu: each((await child.ask<number>('cpu')) - cpuBefore),
            redisCpu: each((await readWork(client)).cpuUs - redisBefore.cpuUs),
            loadCpu: each(turn.cpuUs),
          }
        },
      },
    )
  } finally {
    await clients.end()
    client.disconnect()
  }
}

function table({ name }: Subject, turns: Turns<Turn>): Table {
  return {
    caption: `${name}, ${CONNECTIONS} connections`,
    head: ['limiter', 'requests/s', '÷ bare', 'service CPU µs', '÷ fields by hand', 'Redis CPU µs', 'clients CPU µs'],
    rows: rowsOf(turns, ({ name, of, against }) => [
      name,
      of(perSecond),
      against(BARE, perSecond),
      of(serviceCpu),
      against(BY_HAND, serviceCpu),
      name.includes('Redis') ? of(turn => turn.redisCpu) : '',
      of(turn => turn.loadCpu),
    ]),
  }
}

function claimsOf({ name, peer, peerForm, byHand, bare }: Subject, turns: Turns<Turn>): Claim[] {
  const claims: Claim[] = []
  const atLeast = (ours: string, other: string, target: number) => {
    const measured = ratio(turns, ours, other, perSecond)
    claims.push({ text: `${name}, ${ours}: requests/s ÷ ${other}`, bound: 'at least', target, measured })
  }
  if (bare !== undefined) {
    atLeast(OURS, BARE, bare.memory)
    atLeast(OURS_ON_REDIS, BARE, bare.redis)
    atLeast(OURS_ON_REDIS, `${INCR_BY_HAND} on Redis`, 1)
  }
  claims.push({
    text: `${name}, ${OURS}: service CPU ÷ that of ${BY_HAND}`,
    bound: 'at most',
    target: byHand,
    measured: ratio(turns, OURS, BY_HAND, serviceCpu),
  })
  if (peer !== undefined) atLeast(peerForm === undefined ? OURS : `${OURS}, ${peerForm}`, `${peer} in memory`, 1)
  return claims
}

await runAlone(import.meta, http)
