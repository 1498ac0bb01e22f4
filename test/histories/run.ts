// npm run test:histories -- --minutes 10 --seed 1 --servers alone|sentinel
// Processes use everything at once on real servers, which stop, die, forget and cut connections; then the checker reads what they wrote.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { childProgram } from '../support/child-program.js'
import { randomFrom } from '../support/random.js'
import { RedisSentinel } from '../support/redis-sentinel.js'
import { RedisServer } from '../support/redis-server.js'
import { check, tableOf, textOf } from './checker.js'
import type { Fault, History, Operation } from './history.js'
import type { ProgramOptions } from './program.js'
import { now, RUN_SUBJECTS } from './subjects.js'

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    seed: { type: 'string', default: String(Date.now()) },
    servers: { type: 'string', default: 'alone' },
    processes: { type: 'string', default: '6' },
  },
})
const lengthMs = Number(values.minutes) * 60_000
const random = randomFrom(values.seed)
const folder = mkdtempSync(join(tmpdir(), 'spillway-histories-'))
const faults: Fault[] = []
const sentinel = values.servers === 'sentinel' ? await RedisSentinel.start({ sentinels: 3 }) : undefined
const alone = sentinel === undefined ? await RedisServer.start() : undefined
const primary = async () => alone ?? (sentinel as RedisSentinel).primary()
const program = childProgram("import './test/histories/program.ts'")
const running = new Map<string, ChildProcess>()
let started = 0

function start(): void {
  const name = `p${++started}`
  const servers = sentinel?.sentinels ?? [alone as RedisServer]
  const options: ProgramOptions = {
    process: name,
    file: join(folder, name),
    seed: values.seed,
    client: started % 2 === 0 ? 'node-redis' : 'ioredis',
    servers: servers.map(({ host, port }) => ({ host, port })),
    sentinelOf: sentinel && 'spillway',
  }
  const child = spawn(process.execPath, [program, JSON.stringify(options)], { stdio: ['ignore', 'inherit', 'inherit'] })
  running.set(name, child)
  child.once('exit', () => running.delete(name))
}

/** A fault that lasts from here until `act` has ended; others see it a moment longer. */
async function during(what: Fault['what'], act: () => Promise<unknown>, process?: string): Promise<void> {
  const from = now()
  await act()
  faults.push({ what, from, until: now() + 100, process })
}

const someone = () => random.pick([...running.keys()])

const NEMESES: Readonly<Record<string, () => Promise<void>>> = {
  'a server stops for a while': async () => {
    const server = await primary()
    await during('hang', async () => {
      server.pause()
      await pause(random.integer(20, 800))
      server.unpause()
    })
  },
  'connections are cut': async () => {
    const admin = (await primary()).client()
    await during('cut', () => admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'))
    admin.disconnect()
  },
  'a process stops for a while': async () => {
    const name = someone()
    await during(
      'stopped',
      async () => {
        running.get(name)?.kill('SIGSTOP')
        await pause(random.integer(20, 2500))
        running.get(name)?.kill('SIGCONT')
      },
      name,
    )
  },
  'a process is killed': async () => {
    const name = someone()
    await during('killed', async () => running.get(name)?.kill('SIGKILL'), name)
    start()
  },
  'scripts are forgotten': async () => {
    const admin = (await primary()).client()
    await admin.script('FLUSH')
    admin.disconnect()
  },
  'all keys are lost': async () => {
    const admin = (await primary()).client()
    await during('lost', () => admin.flushall())
    admin.disconnect()
  },
  'a server dies': async () => {
    const server = await primary()
    if (alone !== undefined) {
      const from = now()
      await alone.restart()
      for (const what of ['lost', 'cut'] as const) faults.push({ what, from, until: now() + 100 })
      return
    }
    const from = now()
    await server.kill()
    for (let tries = 0; (await primary()) === server && tries < 200; tries++) await pause(50)
    for (const what of ['failover', 'cut'] as const) faults.push({ what, from, until: now() + 1000 })
    await server.restart()
    await pause(3000)
  },
}

const startedAt = now()
for (let i = 0; i < Number(values.processes); i++) start()
await pause(3000)
const counts = new Map<string, number>()
while (now() - startedAt < lengthMs) {
  await pause(random.integer(1000, 8000))
  const name = random.pick(Object.keys(NEMESES))
  counts.set(name, (counts.get(name) ?? 0) + 1)
  await NEMESES[name]()
}
await pause(6000)
const last = [...running.values()]
for (const child of last) child.kill('SIGTERM')
await Promise.all(last.map(child => (child.exitCode === null ? once(child, 'exit') : undefined)))

const endedAt = now()
/** What has no lifetime, but for the number of permits and the rate, which were set. */
const admin = (await primary()).client()
const leftKeys: string[] = []
for (const key of await admin.keys('*')) {
  if (!/:(semaphore|rate)$/.test(key) && (await admin.pttl(key)) === -1) leftKeys.push(key)
}
admin.disconnect()
await (alone ?? sentinel)?.stop()

/** The last line of an operation stands for it. */
const operations = new Map<number, Operation>()
for (let i = 1; i <= started; i++) {
  for (const line of readFileSync(join(folder, `p${i}`), 'utf8').split('\n')) {
    if (!line.endsWith('}')) continue
    const found = JSON.parse(line) as Operation | Fault
    if ('what' in found) faults.push(found)
    else operations.set(found.id, found)
  }
}
const history: History = { subjects: RUN_SUBJECTS, operations: [...operations.values()], faults, leftKeys, endedAt }
const violations = check(history)
console.log(tableOf(history))
console.log(`\nfaults: ${[...counts].map(([name, count]) => `${name} ${count}`).join(', ')}`)
for (const violation of violations) console.log(`\n${textOf(violation)}`)
console.log(
  `\n${operations.size} operations of ${started} processes, ${violations.length} violations; seed ${values.seed}`,
)
if (violations.length === 0) rmSync(folder, { recursive: true })
else console.log(`the history is in ${folder}`)
process.exitCode = violations.length === 0 ? 0 : 1
