// spillway/bottleneck against bottleneck 2.19.5: jobs a second in one process, memory of a waiting job, commands a job
// over Redis.
//
//   node --import tsx bench/bottleneck.ts     about half a minute
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { RedisServer } from '../test/support/redis-server.js'
import { median, tableText } from './contest/figures.js'

/** What is used of both alike. */
type Limiter = {
  ready(): Promise<unknown>
  schedule<R>(fn: () => Promise<R>): Promise<R>
  queued(): number
  disconnect(): Promise<void>
}
type LimiterClass = new (options: object) => Limiter

const CONTENDERS = { original: 'bottleneck', ours: '../dist/bottleneck.js' }
const SHAPES = { 'no limit': {}, 'maxConcurrent 5': { maxConcurrent: 5 } }
const JOBS = 1000
const WAITING = 8000
const REDIS_JOBS = 300

interface Measured {
  readonly perSecond: readonly number[]
  /** Commands a job: jobs at once, and one after another. */
  readonly commands: readonly [name: string, commands: number][]
}

const later = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

async function perSecond(Bottleneck: LimiterClass, options: object): Promise<number> {
  const limiter = new Bottleneck(options)
  const startedAt = performance.now()
  await Promise.all(Array.from({ length: JOBS }, (_, job) => limiter.schedule(async () => job)))
  return (JOBS / (performance.now() - startedAt)) * 1000
}

/** What jobs that wait hold, in a process that has done nothing else. */
async function bytesOfWaiting(Bottleneck: LimiterClass): Promise<number> {
  const limiter = new Bottleneck({ maxConcurrent: 1 })
  const job = async () => 1
  const wait = async (count: number) => {
    const [from, before] = [limiter.queued(), await heap()]
    for (let i = 0; i < count; i++) void limiter.schedule(job)
    while (limiter.queued() < from + count) await later(20)
    return ((await heap()) - before) / count
  }
  void limiter.schedule(() => new Promise(() => {}))
  // Code that is compiled, and rooms of lists that grow, are no job's.
  await wait(WAITING / 4)
  return wait(WAITING)
}

/** Bytes in use when nothing more can be collected. */
async function heap(): Promise<number> {
  for (let round = 0; round < 4; round++) {
    await later(20)
    globalThis.gc?.()
  }
  return process.memoryUsage().heapUsed
}

/** EVALSHA and PUBLISH that a job costs, as clients send them. */
async function commandsOf(Bottleneck: LimiterClass, server: RedisServer): Promise<[string, number][]> {
  const admin = server.client()
  const cases: [string, object, (limiter: Limiter) => Promise<unknown>][] = [
    [
      'at once, no limit',
      {},
      limiter => Promise.all(Array.from({ length: REDIS_JOBS }, () => limiter.schedule(async () => 1))),
    ],
    [
      'at once, maxConcurrent 5',
      { maxConcurrent: 5 },
      limiter => Promise.all(Array.from({ length: REDIS_JOBS }, () => limiter.schedule(() => later(1)))),
    ],
    [
      'one after another',
      {},
      async limiter => {
        for (let i = 0; i < REDIS_JOBS; i++) await limiter.schedule(async () => 1)
      },
    ],
  ]
  const measured: [string, number][] = []
  for (const [name, options, work] of cases) {
    await admin.flushall()
    const limiter = new Bottleneck({ ...options, id: name, datastore: 'ioredis', clientOptions: { port: server.port } })
    await limiter.ready()
    await admin.config('RESETSTAT')
    await work(limiter)
    const stats = await admin.info('commandstats')
    const [, calls] = /cmdstat_evalsha:calls=(\d+)/.exec(stats) ?? []
    measured.push([name, Number(calls) / REDIS_JOBS])
    await limiter.disconnect()
  }
  return measured
}

async function measure(file: string): Promise<Measured> {
  const Bottleneck = createRequire(import.meta.url)(file) as LimiterClass
  const rates: number[] = []
  for (const options of Object.values(SHAPES)) {
    await perSecond(Bottleneck, options)
    rates.push(await perSecond(Bottleneck, options))
  }
  const server = await RedisServer.start()
  const commands = await commandsOf(Bottleneck, server)
  await server.stop()
  return { perSecond: rates, commands }
}

const [, , contender, what] = process.argv
if (contender !== undefined) {
  const found =
    what === 'bytes' ? await bytesOfWaiting(createRequire(import.meta.url)(contender)) : await measure(contender)
  process.stdout.write(`\n${JSON.stringify(found)}\n`)
  if (process.stdout.writableNeedDrain) await once(process.stdout, 'drain')
  process.exit()
}

function inProcess<Found>(file: string, ...what: readonly string[]): Found {
  const args = ['--expose-gc', '--import', 'tsx', fileURLToPath(import.meta.url), file, ...what]
  const { stdout, status } = spawnSync(process.execPath, args, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  if (status !== 0) throw new Error(`${file}: exit code ${status}`)
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '')
}

const [original, ours] = Object.values(CONTENDERS).map(file => ({
  ...inProcess<Measured>(file),
  bytes: median(Array.from({ length: 5 }, () => inProcess<number>(file, 'bytes'))).value,
}))
const row = (name: string, before: number, now: number, digits: number, target: string) => [
  name,
  before.toFixed(digits),
  now.toFixed(digits),
  (now / before).toFixed(2),
  target,
]
console.log(
  tableText({
    caption: 'bottleneck 2.19.5 against spillway/bottleneck, each in a process of its own',
    head: ['', 'bottleneck', 'ours', 'ratio', 'target'],
    rows: [
      ...Object.keys(SHAPES).map((name, i) =>
        row(`jobs a second, ${name}`, original.perSecond[i], ours.perSecond[i], 0, 'at least 2'),
      ),
      row('bytes of a waiting job', original.bytes, ours.bytes, 0, 'at most 1'),
      ...ours.commands.map(([name, commands], i) =>
        row(`scripts a job over Redis, ${name}`, original.commands[i][1], commands, 2, 'at most 0.5'),
      ),
    ],
  }),
)
