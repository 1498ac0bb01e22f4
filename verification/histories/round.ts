import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { childProgram } from '../../test/support/child-program.js'
import { eventually } from '../../test/support/eventually.js'
import { randomFrom } from '../../test/support/random.js'
import { CLIENTS_OF } from './clients.js'
import type { Bounds, Fault, History, Note, Operation, Subject } from './history.js'
import { type Length, nemeses, torment } from './nemeses.js'
import type { ProgramOptions } from './recording.js'
import { Servers, type Topology } from './servers.js'
import { now } from './subjects.js'

export interface RoundOptions {
  readonly topology: Topology
  readonly seed: string
  /** The module that each process runs. */
  readonly program: string
  readonly subjects: readonly Subject[]
  readonly processes: number
  /** How long nemeses come. */
  readonly lengthMs: number
  /** Default: every kind that knows the topology, in turn. */
  readonly clients?: readonly string[]
  /**
   * One nemesis so many times, each as long as it can last; and what is promised then. Default: all that a seed says.
   */
  readonly only?: { readonly nemesis: string; readonly times: number; readonly bounds: Bounds }
}

export interface Round {
  readonly history: History
  /** How often each nemesis came. */
  readonly counts: ReadonlyMap<string, number>
  readonly started: number
  readonly folder: { readonly path: string; remove(): void }
}

/** All that is compiled and loaded first. */
const WARM_UP_MS = 1000
/** After the last fault: longer than any recovery that is promised. */
const CALM_MS = 6500
/** Between a nemesis and itself. */
const AGAIN_MS = 100

/** Beyond its length no round takes longer than that. */
const MOST_MS = 60_000

/**
 * Servers and processes from their start to their end, and what they have written. Rejects with what is still going on
 * if they do not end.
 */
export async function playRound(options: RoundOptions): Promise<Round> {
  const doing = new Set<string>()
  const over = new AbortController()
  const hung = pause(options.lengthMs + MOST_MS, undefined, { signal: over.signal }).then(() => {
    const place = `${options.topology}, seed ${options.seed}`
    throw new Error(`${place}: no end ${MOST_MS / 1000} s after its time: ${[...doing].join(', ')}`)
  })
  try {
    return await Promise.race([play(options, doing), hung])
  } finally {
    over.abort()
    hung.catch(() => {})
  }
}

async function play(options: RoundOptions, doing: Set<string>): Promise<Round> {
  const { topology, seed, subjects, lengthMs, only } = options
  const during = async <T>(what: string, done: Promise<T>): Promise<T> => {
    doing.add(what)
    const result = await done
    doing.delete(what)
    return result
  }
  const path = mkdtempSync(join(tmpdir(), 'spillway-histories-'))
  const faults: Fault[] = []
  const notes: Note[] = []
  const servers = await during('the servers start', Servers.start(topology))
  const program = childProgram(`import '${options.program}'`)
  const clients = options.clients ?? CLIENTS_OF[topology]
  const clientOf = (number: number) => clients[(number - 1) % clients.length]
  const running = new Map<string, ChildProcess>()
  let started = 0
  const start = () => {
    const number = ++started
    const name = `p${number}`
    const about: ProgramOptions = {
      process: name,
      number,
      file: join(path, name),
      seed,
      subjects,
      client: clientOf(number),
      place: servers.place(number),
      pace: options.processes / 4,
    }
    writeFileSync(about.file, '')
    const child = spawn(process.execPath, [program, JSON.stringify(about)], { stdio: ['pipe', 'inherit', 'inherit'] })
    running.set(name, child)
    child.once('exit', code => {
      running.delete(name)
      if (!code) return
      console.log(`${name} (${about.client}) ended with code ${code}`)
      notes.push({ process: name, kind: 'unhandled', said: `it ended with code ${code}` })
    })
  }
  for (let i = 0; i < options.processes; i++) start()
  const hasBegun = (number: number) => statSync(join(path, `p${number}`)).size > 0
  await during(
    'everybody begins',
    eventually('all have begun', async () => Array.from({ length: started }, (_, i) => i + 1).every(hasBegun)),
  )
  await pause(WARM_UP_MS)

  const counts = new Map<string, number>()
  const any = () => random.pick([...running.keys()])
  const signal = (name: string, what: NodeJS.Signals) => void running.get(name)?.kill(what)
  const random = randomFrom(`${seed} nemeses`)
  const longest: Length = (_, mostMs) => mostMs
  const { ofServers, ofProcesses } = nemeses(
    servers,
    { any, signal, start },
    random,
    faults,
    only ? longest : undefined,
  )
  const looking = look(servers, faults)
  const until = now() + lengthMs
  if (only) {
    for (let i = 0; i < only.times; i++) {
      if (i > 0) await pause(AGAIN_MS)
      await during(only.nemesis, ofServers[only.nemesis]())
    }
  } else {
    await Promise.all([
      torment(ofServers, randomFrom(`${seed} servers`), until, counts, doing),
      torment(ofProcesses, randomFrom(`${seed} processes`), until, counts, doing),
    ])
  }
  await pause(only ? only.bounds.backMs + WARM_UP_MS : CALM_MS)
  const last = [...running]
  for (const [, child] of last) child.kill('SIGTERM')
  const ended = last.map(([name, child]) => {
    return running.has(name) ? during(`${name} ends`, once(child, 'exit')) : undefined
  })
  await Promise.all(ended)
  looking.end()

  const endedAt = now()
  const { leftKeys, knownKeys } = await during('keys are listed', keysOf(servers))
  await during('the servers stop', servers.stop())
  const operations = operationsIn(path, started, faults, notes)
  const repeating = Array.from({ length: started }, (_, i) => i + 1)
    .filter(number => clientOf(number) === 'upstash')
    .map(number => `p${number}`)
  const history: History = {
    subjects,
    operations,
    faults,
    repeating,
    leftKeys,
    knownKeys,
    notes,
    bounds: only?.bounds,
    endedAt,
  }
  const { operations: _, ...rest } = history
  writeFileSync(join(path, 'history.json'), JSON.stringify(rest))
  return { history, counts, started, folder: { path, remove: () => rmSync(path, { recursive: true }) } }
}

/** Asks every server again and again: one that answers late on a busy machine is a fault too. */
function look(servers: Servers, faults: Fault[]): { end(): void } {
  let isOver = false
  for (const server of servers.all) {
    const admin = server.client({ maxRetriesPerRequest: null })
    const ask = async () => {
      while (!isOver) {
        const from = now()
        await Promise.race([admin.ping().catch(() => {}), pause(1000, undefined, { ref: false })])
        if (now() - from > 25) faults.push({ what: 'hang', from, until: now() })
        await pause(20)
      }
      admin.disconnect()
    }
    void ask()
  }
  return {
    end: () => {
      isOver = true
    },
  }
}

/** All, and those without a lifetime, with what they hold; but for what was set: numbers of permits, rates, limits. */
async function keysOf(servers: Servers): Promise<{ leftKeys: string[]; knownKeys: string[] }> {
  const [left, known]: [string[], string[]] = [[], []]
  for (const server of await servers.primaries()) {
    const admin = server.client()
    for (const key of await admin.keys('*')) {
      known.push(key)
      if (/:(semaphore|rate)$|live/.test(key) || (await admin.pttl(key)) !== -1) continue
      left.push(`${key} on ${server.port} holds ${JSON.stringify(await contentOf(admin, key))}`)
    }
    admin.disconnect()
  }
  return { leftKeys: left, knownKeys: known }
}

async function contentOf(admin: Redis, key: string): Promise<unknown> {
  const type = await admin.type(key)
  if (type === 'zset') return admin.call('ZRANGE', key, '0', '9', 'WITHSCORES')
  return type === 'hash' ? admin.hgetall(key) : type === 'string' ? admin.get(key) : type
}

/** The last line of an operation stands for it. */
function operationsIn(path: string, started: number, faults: Fault[], notes: Note[]): Operation[] {
  const operations = new Map<number, Operation>()
  for (let i = 1; i <= started; i++) {
    for (const line of readFileSync(join(path, `p${i}`), 'utf8').split('\n')) {
      if (!line.endsWith('}')) continue
      const found = JSON.parse(line) as Operation | Fault | Note
      if ('what' in found) faults.push(found)
      else if ('said' in found) notes.push(found)
      else operations.set(found.id, found)
    }
  }
  return [...operations.values()].sort((one, two) => one.askedAt - two.askedAt)
}
