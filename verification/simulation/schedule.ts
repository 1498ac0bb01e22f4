// One schedule: processes that use everything, and faults, all drawn from a seed.
import { createHash } from 'node:crypto'
import { randomFrom } from '../../test/support/random.js'
import { check } from '../histories/checker.js'
import type { Fault, History, Violation } from '../histories/history.js'
import { Network } from './network.js'
import { type Plan, Program } from './program.js'
import { EmbeddedRedis } from './server/embedded-redis.js'
import type { Lua } from './server/lua.js'
import { USES } from './uses.js'
import { enter, SimulatedProcess, START, World } from './world.js'

/** Nobody waits for a processor here; timers come up to 0.4 ms late. */
const SLACK_MS = 5
/** Beyond its end no schedule takes longer: nobody waits for longer than 30 s. */
const PATIENT_MS = 60_000
/** Longer than the lifetime of every key. */
const FORGOTTEN_MS = 900_000
const LOOKED_MS = 30_000
/** Without a fault, messages take so long at most. */
const BEHIND_MS = 100

export interface ScheduleOptions {
  /** Names of `USES`; default: all. */
  readonly uses?: readonly string[]
  /** Called with the server before anything happens. */
  readonly watch?: (server: EmbeddedRedis) => void
}

export interface Schedule {
  readonly history: History
  readonly violations: readonly Violation[]
  readonly events: number
  /** Names all that happened: equal for equal seeds. */
  readonly digest: () => string
}

/** Runs the schedule of a seed, from its beginning until everything has ended. */
export async function runSchedule(seed: string, lua: Lua, options: ScheduleOptions = {}): Promise<Schedule> {
  const world = new World(seed)
  enter(world)
  const random = randomFrom(`schedule ${seed}`)
  const server = { offsetMs: random.integer(-5000, 5000) + 0.25 }
  const redis = new EmbeddedRedis(lua, () => world.now + server.offsetMs)
  options.watch?.(redis)
  const usualMs = random.pick([0.2, 0.5, 1])
  const names = options.uses ?? Object.keys(USES)
  const uses = Array.from({ length: random.integer(1, 2) }, (_, i) => {
    const name = random.pick(names)
    return USES[name](random, `${name}${i}`)
  })
  const faultsEndAt = START + random.integer(300, 1500)
  const network = new Network(world, redis, {
    usualMs,
    rareMs: random.pick([5, 60, 300]),
    rarely: random.pick([30, 300]),
    until: faultsEndAt,
    isLate: (ms, owner) => fault('hang', ms, owner),
  })
  const isHot = uses.some(({ subject }) => subject.leased)
  // What a fault cost a leased key is over before it ends.
  const endsAt = faultsEndAt + Math.max(random.pick([200, 200, 200, 200, 6000]), isHot ? 4000 : 0)
  // Messages are delivered again a while later; all others close as soon as they have ended what they began.
  const closesAt = endsAt + (uses.some(({ kind }) => kind === 'queue') ? 4000 : 0)
  const times = { calmAt: faultsEndAt, endsAt, closesAt }
  const plan: Plan = { world, network, uses, isHot, ...times, operations: [], looks: [], unheard: [] }
  const faults: Fault[] = []
  const running = new Map<string, SimulatedProcess>()
  /** Those that have not closed everything, and those that will be started. */
  let left = 0
  let endedAt = Number.POSITIVE_INFINITY
  let started = 0
  const wrong: Violation[] = []
  const broken = (error: unknown) => {
    const place = { subject: 'program', key: '', from: world.now, until: world.now, operations: [] }
    wrong.push({ rule: 'an error that nobody caught', ...place, said: `${(error as Error)?.stack ?? error}` })
  }
  process.on('unhandledRejection', broken)

  const lookAround = (name: string, last: boolean) => {
    const looking = new SimulatedProcess(name, world.now)
    world.after(0, () => void new Program(plan, looking).look(last).catch(broken), looking)
  }
  const ended = () => {
    left--
    if (left > 0 || world.now < endsAt) return
    endedAt = world.now
    // The server answers, and lets everybody connect, before anybody looks.
    const healedAt = Math.max(network.hangsUntil, network.refusesUntil)
    world.after(healedAt - endedAt, () => lookAround('first look', false), null)
  }
  const start = () => {
    const born = new SimulatedProcess(`p${++started}`, world.now)
    born.wallOffsetMs = random.integer(-10_000, 10_000)
    running.set(born.name, born)
    left++
    world.after(0, () => void new Program(plan, born).run().catch(broken).finally(ended), born)
  }
  const fault = (what: Fault['what'], ms: number, process?: SimulatedProcess) => {
    faults.push({ what, from: world.now, until: world.now + ms, process: process?.name })
  }
  const someone = () => random.pick([...running.values()])

  const NEMESES: ReadonlyArray<() => void> = [
    // The server stands still.
    () => {
      const ms = random.integer(5, 800)
      network.hangsUntil = Math.max(network.hangsUntil, world.now + ms)
      fault('hang', ms)
    },
    // Connections break, and those who connect again may be refused for a while.
    () => {
      network.refusesUntil = Math.max(network.refusesUntil, world.now + random.pick([0, 0, 300]))
      network.cut(random.pick([undefined, someone()]))
      fault('cut', 300)
    },
    // Packets of a process are lost, until TCP has repeated them.
    () => {
      const [ms, process] = [random.integer(5, 800), someone()]
      network.parted.set(process, world.now + ms)
      fault('hang', ms)
    },
    () => {
      const [ms, process] = [random.integer(5, 2500), someone()]
      process.standsUntil = Math.max(process.standsUntil, world.now + ms)
      fault('stopped', ms, process)
    },
    () => {
      const process = someone()
      process.isDead = true
      running.delete(process.name)
      network.cut(process)
      fault('killed', 0.001, process)
      // Another one takes its place, which is not closed before.
      world.after(
        random.integer(0, 500),
        () => {
          left--
          start()
        },
        null,
      )
      if (running.size === 0) start()
    },
    () => redis.forgetScripts(),
    () => {
      redis.execute(['FLUSHALL'])
      fault('lost', 0.001)
    },
    // The server dies, and comes back empty.
    () => {
      const ms = random.integer(10, 500)
      network.refusesUntil = Math.max(network.refusesUntil, world.now + ms)
      network.cut()
      redis.execute(['FLUSHALL'])
      redis.forgetScripts()
      fault('lost', ms)
      fault('cut', ms)
    },
    // Its clock is set.
    () => {
      server.offsetMs += random.pick([-1, 1]) * random.pick([1, 20, 300, 4000])
      fault('clock', 100)
    },
    // The clock of a process is set.
    () => {
      const process = someone()
      process.wallOffsetMs += random.pick([-1, 1]) * random.pick([1, 300, 4000])
      fault('clock', 100, process)
    },
  ]
  const nemeses = NEMESES.filter(() => random.integer(1, 2) === 1)
  const strike = () => {
    if (world.now >= faultsEndAt) return
    if (nemeses.length > 0) random.pick(nemeses)()
    world.after(random.integer(30, 700), strike, null)
  }

  for (let i = random.integer(1, 3); i > 0; i--) start()
  world.after(random.integer(50, 600), strike, null)
  await world.run(endsAt + PATIENT_MS)
  endedAt = Math.min(endedAt, world.now)
  await world.run(world.now + FORGOTTEN_MS)
  const keysThat = (isLeft: (expiresAt: number) => boolean) => {
    // But for what was set to stay: the number of permits, the rate, and live limits.
    const entries = [...redis.db.entries].filter(([key]) => !/:(semaphore|rate)$|:live:/.test(key))
    return entries.filter(([, { expiresAt }]) => isLeft(expiresAt)).map(([key]) => key)
  }
  const outliving = keysThat(at => at > redis.nowMs() && at < Number.POSITIVE_INFINITY)
  lookAround('last look', true)
  await world.run(world.now + LOOKED_MS)
  const leftKeys = [...outliving, ...keysThat(at => at === Number.POSITIVE_INFINITY)]
  process.off('unhandledRejection', broken)
  enter(undefined)
  const subjects = uses.map(({ subject }) => subject)
  const allowances = { slackMs: SLACK_MS, behindMs: BEHIND_MS }
  const { operations, looks, unheard } = plan
  const history = { subjects, operations, looks, faults, unheard, leftKeys, endedAt, ...allowances }
  const all = [history, world.events, world.trace]
  const digest = () => createHash('sha1').update(JSON.stringify(all)).digest('hex')
  return { history, violations: [...check(history), ...wrong], events: world.events, digest }
}
