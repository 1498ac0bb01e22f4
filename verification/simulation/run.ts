// See simulate.mjs, which bundles this program and runs it.
import { fork } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import './installed.js'
import { textOf } from '../histories/checker.js'
import { runSchedule } from './schedule.js'
import type { EmbeddedRedis } from './server/embedded-redis.js'
import { Lua } from './server/lua.js'
import { plain } from './server/reply.js'
import { USES } from './uses.js'

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(Date.now()) },
    schedules: { type: 'string', default: '1' },
    uses: { type: 'string', default: Object.keys(USES).join(',') },
    processes: { type: 'string', default: String(availableParallelism()) },
    digests: { type: 'boolean', default: false },
    record: { type: 'string' },
    first: { type: 'boolean', default: false },
  },
})
const [first, count] = [Number(values.seed), Number(values.schedules)]
/** So many are played before their results are told. */
const AT_ONCE = 50
/** Nobody waits longer for that many: one of them does not end. */
const MOST_MS = 300_000

/** What some schedules had, by what they used and which faults struck; and what is to be said of them. */
interface Tally {
  schedules: number
  operations: number
  events: number
  broken: number
  readonly lines: string[]
  readonly uses: Record<string, number>
  readonly faults: Record<string, number>
}

const nothing = (): Tally => ({ schedules: 0, operations: 0, events: 0, broken: 0, lines: [], uses: {}, faults: {} })
const count1 = (counts: Record<string, number>, name: string, by = 1) => {
  counts[name] = (counts[name] ?? 0) + by
}

function add(sum: Tally, more: Tally): void {
  for (const name of ['schedules', 'operations', 'events', 'broken'] as const) sum[name] += more[name]
  for (const counts of ['uses', 'faults'] as const) {
    for (const [name, by] of Object.entries(more[counts])) count1(sum[counts], name, by)
  }
}

/**
 * Of each script that runs, a line: when, its text, KEYS, ARGV, the answer and `heard`. A line [] between schedules.
 */
const recorded: string[] = []
const watch = (server: EmbeddedRedis) => {
  if (values.record === undefined) return
  recorded.push('[]')
  server.onRun = ({ nowMs, source, keys, args, reply, heard }) => {
    recorded.push(JSON.stringify([nowMs, source, keys, args, plain(reply), heard]))
  }
}

async function play(lua: Lua, from: number, until: number): Promise<Tally> {
  const tally = nothing()
  for (let seed = from; seed < until; seed++) {
    const { history, violations, digest, events } = await runSchedule(String(seed), lua, {
      uses: values.uses.split(','),
      watch,
    })
    tally.schedules++
    tally.operations += history.operations.length
    tally.events += events
    for (const { name } of history.subjects) count1(tally.uses, name.replace(/\d+$/, ''))
    for (const { what } of history.faults) count1(tally.faults, what)
    if (values.digests) tally.lines.push(`${seed} ${digest()}`)
    if (violations.length === 0) continue
    tally.broken++
    const [{ from: at, subject }] = violations
    const faults = history.faults.map(
      fault =>
        `${fault.what} ${fault.process ?? ''} ${(fault.from - at).toFixed(1)} to ${(fault.until - at).toFixed(1)}`,
    )
    tally.lines.push(
      `\nseed ${seed}: ${textOf(violations[0])}`,
      `  faults: ${faults.join(', ')}`,
      `  promised: ${JSON.stringify(history.subjects.find(({ name }) => name === subject))}`,
      ...(violations.length > 1 ? [`  and ${violations.length - 1} more violations`] : []),
      `  again: npm run simulate -- --seed ${seed} --uses ${values.uses}`,
    )
  }
  return tally
}

const startedAt = process.hrtime.bigint()
const seconds = () => Number(process.hrtime.bigint() - startedAt) / 1e9
const sum = nothing()
let toldAt = 0
/** With `--first`, one violation is enough. */
const isEnough = () => values.first && sum.broken > 0

function told(tally: Tally): void {
  add(sum, tally)
  for (const line of tally.lines) console.log(line)
  if (seconds() - toldAt < 10) return
  toldAt = seconds()
  console.log(`${sum.schedules} of ${count} in ${toldAt.toFixed(0)} s, ${(sum.schedules / toldAt).toFixed(0)} a second`)
}

/** Gives the seeds to processes, some at a time: a seed plays the same schedule in any of them. */
async function playInProcesses(processes: number): Promise<void> {
  let next = first
  const worker = () =>
    new Promise<void>((resolve, reject) => {
      // The objects of a schedule are dead before they would be moved.
      const child = fork(fileURLToPath(import.meta.url), process.argv.slice(2), {
        execArgv: ['--max-semi-space-size=32'],
      })
      let [from, hung] = [0, setTimeout(() => {}, 0)]
      const fail = (what: string) => {
        child.kill('SIGKILL')
        reject(new Error(`${what}, while the seeds from ${from} were played (${AT_ONCE} of them)`))
      }
      const give = () => {
        clearTimeout(hung)
        if (next >= first + count || isEnough()) {
          child.disconnect()
          resolve()
          return
        }
        from = next
        next = Math.min(first + count, from + AT_ONCE)
        hung = setTimeout(() => fail(`no end after ${MOST_MS / 1000} s`), MOST_MS)
        child.send([from, next])
      }
      child.on('message', tally => {
        told(tally as Tally)
        give()
      })
      child.once('exit', code => fail(`a process ended with ${code}`))
      give()
    })
  await Promise.all(Array.from({ length: processes }, worker))
}

// A stack for each error costs more than the rest of a refusal.
if (count > 1) Error.stackTraceLimit = 0
if (process.send !== undefined) {
  const lua = await Lua.create()
  process.on('message', ([from, until]: [number, number]) => {
    void play(lua, from, until).then(tally => process.send?.(tally))
  })
} else {
  const processes = Math.min(Number(values.processes), Math.ceil(count / AT_ONCE))
  if (values.record !== undefined || processes < 2) {
    const lua = await Lua.create()
    for (let from = first; from < first + count && !isEnough(); from += AT_ONCE) {
      told(await play(lua, from, Math.min(first + count, from + AT_ONCE)))
    }
    if (values.record !== undefined) writeFileSync(values.record, recorded.join('\n'))
  } else await playInProcesses(processes)
  const list = (counts: Record<string, number>) =>
    Object.entries(counts)
      .sort(([one], [two]) => (one < two ? -1 : 1))
      .map(([name, n]) => `${name} ${n}`)
      .join(', ')
  console.log(`used: ${list(sum.uses)}\nfaults: ${list(sum.faults)}`)
  console.log(
    `${sum.schedules} schedules from seed ${first}: ${sum.operations} operations, ${sum.events} events, ${sum.broken} with violations; ${seconds().toFixed(1)} s, ${(sum.schedules / seconds()).toFixed(0)} schedules a second`,
  )
  process.exit(sum.broken === 0 ? 0 : 1)
}
