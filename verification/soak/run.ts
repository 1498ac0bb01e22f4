// Mixed traffic for an hour, with connections that are cut, and whether anything grows:
// `npm run verify -- soak --minutes 60`.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { childProgram } from '../../test/support/child-program.js'
import { RedisServer } from '../../test/support/redis-server.js'
import { TcpProxy } from '../../test/support/tcp-proxy.js'
import { flatness, mean } from './flat.js'
import { objectBytes } from './objects.js'
import type { Sample } from './service.js'

const { values } = parseArgs({ options: { minutes: { type: 'string', default: '60' } } })
const minutes = Number(values.minutes)
if (!(minutes >= 2)) {
  console.error(
    `--minutes ${values.minutes}: expected a number of at least 2, like: npm run verify -- soak --minutes 60`,
  )
  process.exit(2)
}
const SERVICES = 2
/** In a run: a service stands still for a second while one is written. */
const SNAPSHOTS = 24
/** Of the run, so that caches fill and code is compiled before it counts. */
const WARM = 1 / 6
const LATENCY_RATIO = 1.5

const redis = await RedisServer.start()
const proxies = await Promise.all(Array.from({ length: SERVICES }, () => TcpProxy.start(redis.port)))
const admin = redis.client()
const program = childProgram("import './verification/soak/service.ts'")
const services: ChildProcess[] = await Promise.all(
  proxies.map(async proxy => {
    const child = fork(program, [`redis://127.0.0.1:${proxy.port}`], {
      execArgv: ['--expose-gc'],
      env: { ...process.env, NODE_OPTIONS: '' },
    })
    await once(child, 'message')
    return child
  }),
)
async function ask<T>(child: ChildProcess, order: 'sample' | 'end' | { readonly snapshot: string }): Promise<T> {
  const answer = once(child, 'message')
  child.send(order)
  return (await answer)[0]
}

interface Row extends Sample {
  readonly redisBytes: number
  readonly redisKeys: number
}
const samples: Row[][] = services.map(() => [])
const objects: number[][] = services.map(() => [])
const folder = mkdtempSync(join(tmpdir(), 'spillway-soak-'))
const stepMs = Math.max(1000, (minutes * 60_000) / 360)
const snapshotEveryMs = (minutes * 60_000) / SNAPSHOTS
let snapshotAt = performance.now() + snapshotEveryMs
const endAt = performance.now() + minutes * 60_000
let cuts = 0
for (let step = 1; performance.now() < endAt; step++) {
  await sleep(stepMs)
  if (step % 6 === 0) {
    proxies[cuts++ % SERVICES].cut()
    // What is cut now belongs to the next sample whole.
    await sleep(500)
  }
  const [used, redisKeys] = await Promise.all([admin.info('memory'), admin.dbsize()])
  const redisBytes = Number(/used_memory:(\d+)/.exec(used)?.[1])
  await Promise.all(
    services.map(async (child, i) => {
      samples[i].push({ ...(await ask<Sample>(child, 'sample')), redisBytes, redisKeys })
    }),
  )
  if (performance.now() < snapshotAt) continue
  snapshotAt += snapshotEveryMs
  for (const [i, child] of services.entries()) {
    objects[i].push(objectBytes(await ask(child, { snapshot: join(folder, `${i}.heapsnapshot`) })))
  }
}

await Promise.all(services.map(child => ask(child, 'end')))
// All that is left ends by itself, but what was set for good: live limits, the rate, the number of permits, and
// messages that are due later.
const left = await admin.keys('*')
const lifetimes = await Promise.all(left.map(key => admin.pttl(key)))
const endless = left.filter((key, i) => lifetimes[i] === -1 && !/\{(live|partner|mails)\}|:semaphore$/.test(key))

const failures = samples.flat().flatMap(({ failure }) => failure ?? [])
const faults: string[] = failures.slice(0, 1)
if (endless.length > 0) faults.push(`keys without a lifetime: ${endless.slice(0, 12).join(' ')}`)
console.log(`${minutes} min, ${SERVICES} services, ${cuts} connections cut, ${samples[0].length} samples`)
console.log('service  measure         first         last          rise         noise  flat')
for (const [i, rows] of samples.entries()) {
  const counted = rows.slice(Math.floor(rows.length * WARM))
  const series = {
    objectBytes: objects[i].slice(Math.floor(objects[i].length * WARM)),
    handles: counted.map(row => row.handles),
    redisBytes: counted.map(row => row.redisBytes),
    redisKeys: counted.map(row => row.redisKeys),
  }
  for (const [measure, values] of Object.entries(series)) {
    const { first, last, rise, noise, flat } = flatness(values)
    const [a, b, c, d] = [first, last, rise, noise].map(value => value.toFixed(0).padStart(12))
    console.log(`${i}        ${measure.padEnd(11)} ${a} ${b}  ${c}  ${d}  ${flat ? 'yes' : 'NO'}`)
    if (!flat) faults.push(`${measure} of service ${i} rises by ${rise.toFixed(0)}`)
  }
  const sixth = Math.floor(counted.length / 6)
  for (const measure of ['heapBytes', 'p50Ms', 'p99Ms', 'loopDelayMs'] as const) {
    const [first, last] = [counted.slice(0, sixth), counted.slice(-sixth)].map(part =>
      mean(part.map(row => row[measure])),
    )
    console.log(`${i}        ${measure.padEnd(11)} ${first.toFixed(2).padStart(12)} ${last.toFixed(2).padStart(12)}`)
    if (last > first * LATENCY_RATIO) faults.push(`${measure} of service ${i} went from ${first} to ${last}`)
  }
  const decisions = rows.reduce((sum, row) => sum + row.decisions, 0)
  const elsewhere = rows.reduce((sum, row) => sum + row.elsewhere, 0)
  console.log(`${i}        ${decisions} decisions, ${elsewhere} of them while Redis was away`)
}
console.log(`${left.length} keys are left in Redis`)
rmSync(folder, { recursive: true })
for (const proxy of proxies) await proxy.stop()
await redis.stop()
console.log(faults.length === 0 ? 'Flat.' : `NOT flat:\n${faults.join('\n')}`)
process.exitCode = faults.length === 0 ? 0 : 1
