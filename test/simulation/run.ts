// See simulate.mjs, which bundles this program and runs it.
import { writeFileSync } from 'node:fs'
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
    digests: { type: 'boolean', default: false },
    record: { type: 'string' },
  },
})
const [first, count] = [Number(values.seed), Number(values.schedules)]
const uses = values.uses.split(',')
const lua = await Lua.create()
/** Of each script that runs, a line: when, its text, KEYS, ARGV and the answer. A line [] between schedules. */
const recorded: string[] = []
const watch = (server: EmbeddedRedis) => {
  if (values.record === undefined) return
  recorded.push('[]')
  server.onRun = ({ nowMs, source, keys, args, reply }) => {
    recorded.push(JSON.stringify([nowMs, source, keys, args, plain(reply)]))
  }
}
// A stack for each error costs more than the rest of a refusal.
if (count > 1) Error.stackTraceLimit = 0
const startedAt = process.hrtime.bigint()
let [operations, events, broken] = [0, 0, 0]
for (let seed = first; seed < first + count; seed++) {
  const { history, violations, digest, ...schedule } = await runSchedule(String(seed), lua, { uses, watch })
  operations += history.operations.length
  events += schedule.events
  if (values.digests) console.log(`${seed} ${digest}`)
  if (violations.length === 0) continue
  broken++
  console.log(`\nseed ${seed}: ${textOf(violations[0])}`)
  console.log(
    `  faults: ${history.faults.map(({ what, from, until, process = '' }) => `${what} ${process} ${(from - violations[0].from).toFixed(1)} to ${(until - violations[0].from).toFixed(1)}`).join(', ')}`,
  )
  console.log(`  promised: ${JSON.stringify(history.subjects.find(({ name }) => name === violations[0].subject))}`)
  if (violations.length > 1) console.log(`  and ${violations.length - 1} more violations`)
  console.log(`  again: npm run simulate -- --seed ${seed} --uses ${values.uses}`)
}
if (values.record !== undefined) writeFileSync(values.record, recorded.join('\n'))
const seconds = Number(process.hrtime.bigint() - startedAt) / 1e9
console.log(
  `${count} schedules from seed ${first}: ${operations} operations, ${events} events, ${broken} with violations; ${seconds.toFixed(1)} s, ${(count / seconds).toFixed(0)} schedules a second`,
)
process.exit(broken === 0 ? 0 : 1)
